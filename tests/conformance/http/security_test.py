#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens and roles, addresses, origins, TLS.

    security_test.py CARILLON
"""

import hashlib
import http.client
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

from client import HOST, Server

BINARY = None


def hashed(token):
    return hashlib.sha256(token.encode()).hexdigest()


def bearer(token):
    return {"Authorization": "Bearer " + token}


def refusal(*options):
    """What the server says when it does not start."""
    done = subprocess.run([BINARY, "serve", "--memory", "--listen", f"{HOST}:0", *options],
                          capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stderr


class TokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="carillon-tokens-")
        cls.path = os.path.join(cls.folder.name, "tokens")
        cls.write(f"# people\n\nproduce {hashed('p')} shop\nconsume {hashed('c')}\n"
                  f"admin {hashed('a')} ops\r\nproduce,consume {hashed('pc')} both of them\n")
        cls.server = Server(BINARY, "--http-tokens", cls.path)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0
        cls.folder.cleanup()

    @classmethod
    def write(cls, text):
        with open(cls.path, "w", encoding="ascii") as file:
            file.write(text)

    def status(self, token, method, path, body=None):
        response = self.server.ask(method, path, body, bearer(token) if token else {})
        if response.status == 401:
            self.assertIn("Bearer", response.headers["WWW-Authenticate"])
        return response.status

    def test_each_role_may_do_what_it_is_for(self):
        put = ("POST", "/api/v1/tubes/t/jobs", {"body": "x"})
        reserve = ("POST", "/api/v1/reserve", {"tubes": ["t"]})
        pause = ("PUT", "/api/v1/tubes/t/pause", {"for_ms": 1})
        look = ("GET", "/api/v1/tubes/t")
        for token, expected in ((None, (401,) * 4), ("x", (401,) * 4), ("", (401,) * 4),
                                ("p", (201, 403, 403, 200)), ("c", (403, 200, 403, 200)),
                                ("pc", (201, 200, 403, 200)), ("a", (201, 200, 204, 200))):
            self.assertEqual(tuple(self.status(token, *what)
                                   for what in (put, reserve, pause, look)), expected, token)
        for header in ("p", "Basic p", "Bearer", "Bearer  p", "bearer x p"):
            response = self.server.get("/api/v1/stats", headers={"Authorization": header})
            self.assertEqual(response.status, 401, header)
        self.assertEqual(self.server.get("/api/v1/stats",
                                         headers={"Authorization": "bEARER p"}).status, 200)

    def test_what_is_public_needs_none(self):
        for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
            self.assertEqual(self.server.get(path).status, 200, path)

    def test_with_tokens_any_name_of_the_server_will_do(self):
        response = self.server.get("/api/v1/stats",
                                   headers={"Host": "jobs.example", **bearer("p")})
        self.assertEqual(response.status, 200)

    def test_tokens_are_read_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokens")
            with open(path, "w", encoding="ascii") as file:
                file.write(f"admin {hashed('old')}\n")
            with Server(BINARY, "--http-tokens", path) as server:
                with open(path, "w", encoding="ascii") as file:
                    file.write(f"admin {hashed('new')}\n")
                server.signal("HUP")
                server.wait_for_log("read again")
                self.assertEqual(server.get("/api/v1/stats", headers=bearer("old")).status, 401)
                self.assertEqual(server.get("/api/v1/stats", headers=bearer("new")).status, 200)
                with open(path, "w", encoding="ascii") as file:
                    file.write("nonsense\n")
                server.signal("HUP")
                server.wait_for_log("tokens:1")
                self.assertEqual(server.get("/api/v1/stats", headers=bearer("new")).status, 200)

    def test_a_file_that_is_wrong_is_an_error_that_names_the_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokens")
            for text, says in (("", "no token"), ("admin x\n", "tokens:1: behind the roles"),
                               (f"# x\nroot {hashed('x')}\n", "tokens:2: the roles"),
                               (f"admin {'g' * 64}\n", "64 hexadecimal")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                status, err = refusal("--http-tokens", path)
                self.assertNotEqual(status, 0)
                self.assertIn(says, err)
            status, err = refusal("--http-tokens", path + "x")
            self.assertIn("No such file", err)


class AddressTest(unittest.TestCase):
    def test_beyond_the_loopback_it_needs_tokens_or_to_be_told(self):
        for address in ("0.0.0.0:0", "[::]:0", "jobs.example:0"):
            status, err = refusal("--http-listen", address)
            self.assertEqual(status, 2, err)
            self.assertIn("http-tokens", err)
        with Server(BINARY, "--http-listen", "0.0.0.0:0", "--http-insecure") as server:
            self.assertEqual(server.get("/api/v1/stats").status, 200)

    def test_beanstalk_beyond_the_loopback_without_tokens_is_warned_of(self):
        with Server(BINARY, "--listen", "0.0.0.0:0") as server:
            server.wait_for_log("warning whoever reaches 0.0.0.0:0 may do anything with all jobs")
        with Server(BINARY) as server:
            self.assertNotIn("whoever reaches", server.log())

    def test_rebinding_of_names_is_refused(self):
        with Server(BINARY, "--http-allowed-host", "jobs.example") as server:
            for host, status in (("localhost", 200), ("LOCALHOST:1", 200), ("127.0.0.1", 200),
                                 ("[::1]:80", 200), ("10.0.0.7:11380", 200), ("a.localhost", 200),
                                 ("jobs.example:99", 200), ("evil.example", 421),
                                 ("127.0.0.1.evil.example", 421), ("localhost.evil", 421),
                                 ("[::1].evil", 421), ("", 421), ("localhost:99999", 421),
                                 ("localhost:80@evil.com", 421), ("localhost:", 200)):
                response = server.get("/api/v1/stats", headers={"Host": host})
                self.assertEqual(response.status, status, host)

    def test_pages_of_other_origins_change_nothing(self):
        with Server(BINARY) as server:
            own = f"http://{HOST}:{server.port}"
            for headers, status in (({"Origin": own}, 201), ({"Origin": "null"}, 403),
                                    ({"Origin": "http://evil.example"}, 403),
                                    ({"Origin": f"http://{HOST}:1"}, 403),
                                    ({"Sec-Fetch-Site": "cross-site"}, 403),
                                    ({"Sec-Fetch-Site": "same-site"}, 403),
                                    ({"Sec-Fetch-Site": "same-origin"}, 201),
                                    ({"Sec-Fetch-Site": "none"}, 201)):
                response = server.ask("POST", "/api/v1/tubes/t/jobs", b"x",
                                      {"Content-Type": "text/plain", **headers})
                self.assertEqual(response.status, status, headers)
                self.assertNotIn("Access-Control-Allow-Origin", response.headers)
            self.assertEqual(server.get("/api/v1/tubes/t").json["jobs"]["ready"], 3)

    def test_pages_have_a_policy(self):
        with Server(BINARY) as server:
            response = server.get("/docs")
            self.assertIn("default-src 'none'", response.headers["Content-Security-Policy"])
            self.assertEqual(response.headers["X-Content-Type-Options"], "nosniff")
            again = server.get("/docs", headers={"If-None-Match": response.headers["ETag"]})
            self.assertEqual((again.status, again.raw), (304, b""))


def exchange(tls, request):
    """Sends and receives at once until the server closes, in one thread: before Python 3.13 an
    SSLSocket that two threads read and write at the same time garbles its records."""
    tls.setblocking(False)
    unsent, received = memoryview(request), b""
    while True:
        readable, _, _ = select.select([tls], [tls] if unsent else [], [], 20)
        try:
            if unsent:
                unsent = unsent[tls.send(unsent[:16384]):]
            elif not readable and not tls.pending():
                raise TimeoutError("the server has sent nothing for 20 s")
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        try:
            while chunk := tls.recv(65536):
                received += chunk
            return received
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class TlsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="carillon-tls-")
        cls.make("ca", ["-x509", "-subj", "/CN=ca", "-days", "2"])
        for name in ("server", "client"):
            cls.make(name, ["-x509", "-CA", cls.file("ca.pem"), "-CAkey", cls.file("ca.key"),
                            "-subj", f"/CN={name}", "-days", "2", "-addext",
                            "subjectAltName=DNS:localhost,IP:127.0.0.1"])

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def file(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def make(cls, name, arguments):
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-keyout", cls.file(name + ".key"), "-out",
                        cls.file(name + ".pem"), *arguments], check=True, capture_output=True,
                       timeout=60)

    def client(self, certificate=None):
        context = ssl.create_default_context(cafile=self.file("ca.pem"))
        if certificate:
            context.load_cert_chain(self.file(certificate + ".pem"),
                                    self.file(certificate + ".key"))
        return context

    def server(self, *options):
        return Server(BINARY, "--tls-cert", self.file("server.pem"), "--tls-key",
                      self.file("server.key"), *options, scheme="https")

    def test_tls(self):
        with self.server() as server:
            connection = http.client.HTTPSConnection(HOST, server.port, context=self.client(),
                                                     timeout=20)
            for size in (1, 100, 60000):
                job = server.ask("POST", "/api/v1/tubes/t/jobs", os.urandom(size),
                                 {"Content-Type": "a/b"}, connection)
                self.assertEqual(job.status, 201)
                got = server.ask("GET", f"/api/v1/jobs/{job.json['id']}/body",
                                 connection=connection)
                self.assertEqual(len(got.raw), size)
            many = b"\n".join([b'{"body":"' + b"x" * 900 + b'"}'] * 10000)
            batch = server.ask("POST", "/api/v1/tubes/u/jobs:batch", many,
                               {"Content-Type": "application/x-ndjson"}, connection)
            self.assertEqual(batch.raw.count(b'"status":201'), 10000)
            self.assertEqual(len(server.reserve("u", max=1000, connection=connection)), 1000)
            connection.close()
            # Who does not speak TLS gets nothing, and is closed.
            with server.socket() as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                try:
                    self.assertNotIn(b"HTTP/1.1 200", plain.recv(4096))
                except ConnectionResetError:
                    pass
            self.assertIsNone(server.process.poll())

    def test_mutual_tls(self):
        with self.server("--tls-client-ca", self.file("ca.pem")) as server:
            connection = http.client.HTTPSConnection(
                HOST, server.port, context=self.client("client"), timeout=20)
            self.assertEqual(server.get("/api/v1/stats", connection=connection).status, 200)
            connection.close()
            with self.assertRaises((ssl.SSLError, OSError)):
                connection = http.client.HTTPSConnection(HOST, server.port,
                                                         context=self.client(), timeout=20)
                server.get("/api/v1/stats", connection=connection)

    def test_beanstalk_over_tls(self):
        with self.server("--tls-client-ca", self.file("ca.pem"), "--listen-tls",
                         f"{HOST}:0") as server:
            port = int(re.search(r"listens on \S+, \S+:(\d+), HTTP", server.log())[1])
            with socket.create_connection((HOST, port), timeout=20) as plain, \
                    self.client("client").wrap_socket(plain, server_hostname="localhost") as tls:
                body = os.urandom(60000)
                put = b"put 0 0 60 60000\r\n" + body + b"\r\n"
                received = exchange(tls, put * 50 + b"reserve\r\n" * 50 + b"quit\r\n")
                self.assertEqual(received.count(b"INSERTED "), 50)
                self.assertEqual(received.count(body), 50)
            with self.assertRaises((ssl.SSLError, OSError)):
                with socket.create_connection((HOST, port), timeout=20) as plain, \
                        self.client().wrap_socket(plain, server_hostname="localhost") as tls:
                    tls.sendall(b"stats\r\n")
                    while tls.recv(65536):
                        pass
                    raise OSError("closed")
            with socket.create_connection((HOST, server.beanstalk_port), timeout=20) as plain:
                plain.sendall(b"list-tubes\r\n")
                self.assertIn(b"OK", plain.recv(4096))

    def test_wrong_files_are_named(self):
        for options, says in (
                (["--https-listen", f"{HOST}:0"], "tls-cert and tls-key"),
                (["--tls-cert", "x"], "tls-cert and tls-key"),
                (["--listen-tls", f"{HOST}:0"], "listen-tls"),
                (["--https-listen", f"{HOST}:0", "--tls-cert", "/nowhere", "--tls-key", "/no"],
                 "tls-cert '/nowhere'"),
                (["--https-listen", f"{HOST}:0", "--tls-cert", self.file("server.pem"),
                  "--tls-key", self.file("client.key")], "tls-key"),
                (["--https-listen", "0.0.0.0:0", "--tls-cert", self.file("server.pem"),
                  "--tls-key", self.file("server.key")], "http-tokens")):
            status, err = refusal("--http-listen", "none", *options)
            self.assertNotEqual(status, 0)
            self.assertIn(says, err)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
