# SPDX-License-Identifier: Apache-2.0
"""The command line over TLS: both protocols, both sides' certificates, and what is said if one of
them is not believed.

    python3 cli_tls_test.py build/gcc-release/bin/carillon
"""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import cli
from cli_server import LIMIT_S, HttpServer


class TlsServer(HttpServer):
    """Speaks plain and with TLS."""

    def __init__(self, files, *words, identity="server"):
        super().__init__("--listen-tls", "127.0.0.1:0", "--https-listen", "127.0.0.1:0",
                         "--tls-cert", files.pem(identity), "--tls-key", files.key(identity),
                         *words)
        self.tls, self.tls_http = self.addresses[-1], self.https[-1]

    def over_tls(self, *words, stdin=b"", host="127.0.0.1", **environment):
        """A verb that is to go over nothing else."""
        port, http = (at.rsplit(":", 1)[1] for at in (self.tls, self.tls_http))
        return cli.run(*words, stdin=stdin, CARILLON_SERVER=f"tls://{host}:{port}",
                       CARILLON_HTTP=f"https://{host}:{http}", **environment)


class Files:
    """Certificates: of an authority, of whom it has certified, and of a stranger."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carillon-cli-tls-")
        self.make("ca", "-x509", "-subj", "/CN=ca")
        for name, names in [("server", "DNS:localhost,IP:127.0.0.1"), ("client", "DNS:client")]:
            self.make(name, "-x509", "-CA", self.pem("ca"), "-CAkey", self.key("ca"), "-subj",
                      f"/CN={name}", "-addext", f"subjectAltName={names}", "-addext",
                      "basicConstraints=critical,CA:FALSE")
        self.make("stranger", "-x509", "-subj", "/CN=stranger")

    def make(self, name, *words):
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-keyout", self.key(name), "-out", self.pem(name),
                        *words], check=True, capture_output=True, timeout=LIMIT_S)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def pem(self, name):
        return self.path(name + ".pem")

    def key(self, name):
        return self.path(name + ".key")


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.files = Files()
        cls.stack.callback(cls.files.folder.cleanup)
        cls.server = cls.stack.enter_context(TlsServer(cls.files))
        cls.ca = ["--tls-ca", cls.files.pem("ca")]

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def verb(self, *words, stdin=b"", status=0, **more):
        got, out, err = self.server.over_tls(*words, *self.ca, stdin=stdin, **more)
        self.assertEqual(got, status, (words, out, err))
        return out

    def refused(self, *words, status=3, server=None, **more):
        got, out, err = (server or self.server).over_tls(*words, **more)
        self.assertEqual((got, out), (status, ""), err)
        return err

    def test_every_verb_that_asks_a_server(self):
        job = self.verb("put", "-t", "a", "one").strip()
        self.assertEqual(self.verb("peek", job), "one\n")
        self.assertEqual(self.verb("reserve", "-t", "a", "--delete"), "one\n")
        self.verb("put", "-t", "a", "--key", "j", "two")
        job = self.verb("reserve", "-t", "a", "--receipt", "--json")
        self.verb("ack", "-", stdin=job.encode())
        self.verb("put", "-t", "a", "--key", "k", "three")
        for words in [["ls"], ["stats"], ["search"], ["show", "-t", "a", "--key", "k"],
                      ["kick", "-t", "a"], ["pause", "-t", "a", "--for", "1s"],
                      ["resume", "-t", "a"],
                      ["schedule", "set", "-t", "a", "s", "@daily", "x"], ["schedule", "ls"],
                      ["schedule", "rm", "s"], ["top", "--json", "--count", "1"],
                      ["bench", "--jobs", "500"]]:
            self.verb(*words)

    def test_a_large_body_both_ways_and_a_wait(self):
        body = os.urandom(60000)
        job = self.verb("put", "-t", "large", stdin=body).strip()
        done = subprocess.run([cli.BINARY, "-s", "tls://" + self.server.tls, *self.ca, "peek",
                               job], capture_output=True, timeout=LIMIT_S, check=True)
        self.assertEqual(done.stdout.removesuffix(b"\n"), body.removesuffix(b"\n"))
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(
            self.verb("reserve", "-t", "waits", "--timeout", "20s", "--delete")))
        waiter.start()
        self.verb("put", "-t", "waits", "came")
        waiter.join(LIMIT_S)
        self.assertEqual(answers, ["came\n"])

    def test_by_name_and_by_options_before_the_verb_and_behind(self):
        port = self.server.tls.rsplit(":", 1)[1]
        at = ["-s", f"tls://localhost:{port}", *self.ca]
        self.assertEqual(cli.run("ls", *at)[0], 0)
        self.assertEqual(cli.run(*at, "ls")[0], 0)
        http = ["--http", f"https://{self.server.tls_http}/", *self.ca]  # As a browser has it.
        self.assertEqual(cli.run("search", *http)[0], 0)
        self.assertEqual(cli.run(*http, "search")[0], 0)
        # Both sides of a verb that uses either need not be alike.
        self.assertEqual(cli.run("put", "x", "-s", self.server.address, *http)[0], 0)
        self.assertEqual(cli.run("ls", CARILLON_SERVER=f"tls://localhost:{port}",
                                 CARILLON_TLS_CA=self.files.pem("ca"))[0], 0)

    def test_a_certificate_that_is_not_believed_is_refused(self):
        for words in [["ls"], ["search"]]:
            for given in [[], ["--tls-ca", self.files.pem("stranger")]]:
                err = self.refused(*words, *given)
                self.assertIn("the server's certificate is not believed", err)
                self.assertIn("--tls-ca", err)
        with TlsServer(self.files, identity="client") as other:
            for words in [["ls"], ["search"]]:
                self.assertIn("IP address mismatch", self.refused(*words, *self.ca, server=other))
                self.assertIn("ostname mismatch",
                              self.refused(*words, *self.ca, server=other, host="localhost"))

    def test_one_side_speaks_no_tls(self):
        for words, plain, tls, option in [
                (["ls"], self.server.address, self.server.tls, "--server"),
                (["search"], self.server.http, self.server.tls_http, "--http")]:
            scheme = "tls://" if option == "--server" else "https://"
            status, _, err = cli.run(*words, option, tls)
            self.assertEqual(status, 3, err)
            self.assertIn(f"{option} {scheme}HOST:PORT", err)
            # beanstalk's protocol takes the handshake for a line that has not ended.
            status, _, err = cli.run(*words, option, scheme + plain, *self.ca, "--patience",
                                     "2s")
            self.assertEqual(status, 3, err)
            self.assertRegex(err, "TLS: the server speaks none there|no answer in time")

    def test_a_client_without_a_certificate_where_one_is_wanted(self):
        mine = ["--tls-cert", self.files.pem("client"), "--tls-key", self.files.key("client")]
        strange = ["--tls-cert", self.files.pem("stranger"), "--tls-key",
                   self.files.key("stranger")]
        with TlsServer(self.files, "--tls-client-ca", self.files.pem("ca")) as server:
            for words in [["ls"], ["search"], ["put", "x"], ["put", "--key", "k", "x"]]:
                status, _, err = server.over_tls(*words, *self.ca, *mine)
                self.assertEqual(status, 0, err)
                err = self.refused(*words, *self.ca, server=server)
                self.assertIn("the server wants a certificate of the client", err)
                self.assertIn("--tls-cert FILE and --tls-key FILE", err)
                self.assertIn("TLS: ", self.refused(*words, *self.ca, *strange, server=server))
            self.assertEqual(server.over_tls("ls", *self.ca, CARILLON_TLS_CERT=mine[1],
                                             CARILLON_TLS_KEY=mine[3])[0], 0)

    def test_tokens_go_over_it(self):
        tokens = self.files.path("tokens")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f"admin {hashlib.sha256(b'secret-1').hexdigest()}\n")
        with TlsServer(self.files, "--http-tokens", tokens, "--login-tokens", tokens) as server:
            for words in [["ls"], ["search"]]:
                self.assertEqual(
                    server.over_tls(*words, *self.ca, CARILLON_TOKEN="secret-1")[0], 0)
                self.refused(*words, *self.ca, server=server, CARILLON_TOKEN="secret-2")

    def test_what_is_said_of_bad_options(self):
        ca, key = self.files.pem("ca"), self.files.key("client")
        none, text = self.files.path("none"), self.files.path("text")
        with open(text, "w", encoding="utf-8") as file:
            file.write("no PEM")
        for given, said in [
                (["--tls-ca", none], f"--tls-ca '{none}' cannot be read"),
                (["--tls-ca", text], f"--tls-ca '{text}'"),
                (["--tls-ca", ""], "--tls-ca: names no file"),
                (["--tls-cert", ca], "--tls-cert: needs --tls-key"),
                (["--tls-key", key], "--tls-key: needs --tls-cert"),
                (["--tls-cert", text, "--tls-key", key], f"--tls-cert '{text}'"),
                (["--tls-cert", self.files.pem("client"), "--tls-key", self.files.key("ca")],
                 "--tls-key"),
                (["-s", "tls://db7:1/x"], "--server: 'db7:1/x' is not an address"),
                (["-s", "https://db7:1"], "--server:"),
                (["-s", "tls://"], "--server:")]:
            self.assertIn(said, self.refused("ls", *given, status=2))
        status, _, err = cli.run("ls", "-s", self.server.address, *self.ca)
        self.assertEqual(status, 2)
        self.assertIn("--tls-ca: the server is asked without TLS", err)
        status, _, err = cli.run("serve", "--memory", *self.ca)
        self.assertEqual(status, 2)

    def test_what_is_to_be_encrypted_is_never_sent_plain(self):
        # Unless --http says where it is, the HTTP API is asked as --server is, token and all.
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", 11380))
            except OSError:
                self.skipTest("the port is in use")
            listener.listen()
            listener.settimeout(LIMIT_S)
            got = []

            def accept():
                with listener.accept()[0] as peer:
                    got.append(peer.recv(4))

            peer = threading.Thread(target=accept)
            peer.start()
            status, _, err = cli.run("search", "-s", "tls://127.0.0.1", *self.ca,
                                     "--patience", "2s", CARILLON_TOKEN="secret")
            peer.join(LIMIT_S)
            self.assertEqual(status, 3, err)
            self.assertEqual(got[0][:2], b"\x16\x03")


if __name__ == "__main__":
    cli.BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
