#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The login of beanstalk's clients: bytes on the wire, reload, and real clients.

    login_test.py CARILLON
"""

import hashlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER / "http"))

from client import HOST, Server  # noqa: E402

BINARY = None
LIMIT_S = 30
TOKENS = {"produce": "p" * 32, "consume": "c" * 32, "admin": "a" * 32}
CLIENTS = FOLDER / "clients"


def line(role, token):
    return f"{role} {hashlib.sha256(token.encode()).hexdigest()} {role}\n"


class Client:
    """One connection; answers are read by their size."""

    def __init__(self, port):
        self.socket = socket.create_connection((HOST, port), timeout=LIMIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def says(self, bytes_, answer):
        self.socket.sendall(bytes_)
        got = b""
        while len(got) < len(answer):
            more = self.socket.recv(len(answer) - len(got))
            if not more:
                break
            got += more
        assert got == answer, f"{bytes_!r} was answered {got!r}, not {answer!r}"

    def is_closed(self):
        """Everything the server still sends, up to its end."""
        rest = b""
        while more := self.socket.recv(4096):
            rest += more
        return rest


class Login(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="carillon-login-")
        cls.tokens = os.path.join(cls.folder.name, "tokens")
        cls.write(**TOKENS)
        cls.server = Server(BINARY, "--login-tokens", cls.tokens)

    @classmethod
    def tearDownClass(cls):
        log = cls.server.log()
        cls.server.stop()
        cls.folder.cleanup()
        for token in [*TOKENS.values(), "wrong-token"]:
            assert token not in log, "a token is in the log"

    @classmethod
    def write(cls, **tokens):
        with open(cls.tokens, "w", encoding="utf-8") as file:
            file.write("".join(line(role, token) for role, token in tokens.items()))

    def reload(self):
        before = self.server.log().count("read again")
        self.server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + LIMIT_S
        while self.server.log().count("read again") == before:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def client(self):
        return Client(self.server.beanstalk_port)

    def test_each_role_may_do_what_it_is_for(self):
        put = b"put 0 0 60 5\r\nhello\r\n"
        with self.client() as producer, self.client() as worker:
            producer.says(put + b"reserve\r\n", b"UNKNOWN_COMMAND\r\n" * 2)
            producer.says(b"login " + TOKENS["produce"].encode() + b"\r\n",
                          b"LOGGED_IN produce\r\n")
            producer.says(b"use roles\r\n", b"USING roles\r\n")
            producer.says(put, b"INSERTED ")
            job = producer.socket.recv(100).strip()
            producer.says(b"reserve-job " + job + b"\r\nkick 1\r\n", b"UNKNOWN_COMMAND\r\n" * 2)
            worker.says(b"watch login;" + TOKENS["consume"].encode() + b"\r\nwatch roles\r\n",
                        b"WATCHING 1\r\nWATCHING 2\r\n")
            worker.says(put + b"reserve\r\n",
                        b"UNKNOWN_COMMAND\r\nRESERVED " + job + b" 5\r\nhello\r\n")
            worker.says(b"delete " + job + b"\r\n", b"DELETED\r\n")
            worker.says(b"list-tubes\r\n", b"OK ")

    def test_the_third_wrong_token_ends_the_connection(self):
        with self.client() as client:
            client.says(b"login wrong-token\r\n" * 3 + b"list-tube-used\r\n",
                        b"LOGIN_FAILED\r\n" * 3)
            self.assertEqual(client.is_closed(), b"")

    def test_a_token_that_is_taken_out_is_good_for_nothing(self):
        with open(self.tokens, "w", encoding="utf-8") as file:
            file.write(line("consume", "short-lived") + line("admin", TOKENS["admin"]))
        self.reload()
        with self.client() as gone, self.client() as stays:
            stays.says(b"login " + TOKENS["admin"].encode() + b"\r\nuse revoked\r\n"
                       b"put 0 0 60 0\r\n\r\n",
                       b"LOGGED_IN admin\r\nUSING revoked\r\nINSERTED ")
            job = stays.socket.recv(100).strip()
            gone.says(b"login short-lived\r\nwatch revoked\r\nreserve\r\n",
                      b"LOGGED_IN consume\r\nWATCHING 2\r\nRESERVED " + job + b" 0\r\n\r\n")
            gone.socket.sendall(b"reserve\r\n")
            self.write(**TOKENS)
            self.reload()
            self.assertIn(gone.is_closed(), [b"TIMED_OUT\r\n", b"DEADLINE_SOON\r\n"])
            # What it had reserved is ready again: anybody may delete it, in a moment.
            deadline = time.monotonic() + LIMIT_S
            while True:
                stays.socket.sendall(b"delete " + job + b"\r\n")
                if (answer := stays.socket.recv(100)) == b"DELETED\r\n":
                    break
                self.assertEqual(answer, b"NOT_FOUND\r\n")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)

    def test_a_file_with_a_mistake_changes_nothing(self):
        with open(self.tokens, "w", encoding="utf-8") as file:
            file.write("everything 123\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.server.wait_for_log("login-tokens: " + self.tokens + ":1")
        self.write(**TOKENS)
        with self.client() as client:
            client.says(b"login " + TOKENS["admin"].encode() + b"\r\n", b"LOGGED_IN admin\r\n")

    def test_either_all_files_are_read_again_or_none(self):
        logins, http = (os.path.join(self.folder.name, name) for name in ("logins", "http"))
        for path in [logins, http]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(line("admin", "before"))
        with Server(BINARY, "--login-tokens", logins, "--http-tokens", http) as server:
            for path, text in [(logins, line("admin", "after")), (http, "nonsense\n")]:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            server.process.send_signal(signal.SIGHUP)
            server.wait_for_log("http-tokens: " + http + ":1")
            with Client(server.beanstalk_port) as client:
                client.says(b"login after\r\nlogin before\r\n",
                            b"LOGIN_FAILED\r\nLOGGED_IN admin\r\n")

    def test_a_server_without_such_a_file_does_not_start(self):
        done = subprocess.run([BINARY, "serve", "--memory", "--listen", f"{HOST}:0",
                               "--http-listen", "none", "--login-tokens", self.tokens + ".none"],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("login-tokens", done.stderr)

    def run_client(self, interpreter, program, probe):
        if not shutil.which(interpreter):
            self.skipTest(f"there is no {interpreter}")
        if subprocess.run(probe, capture_output=True, timeout=LIMIT_S, check=False,
                          cwd=CLIENTS).returncode != 0:
            self.skipTest(f"what {program} needs is not installed")
        done = subprocess.run([interpreter, str(CLIENTS / program), HOST,
                               str(self.server.beanstalk_port), TOKENS["admin"]],
                              capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pheanstalk(self):
        self.run_client("php", "login.php", ["php", "-r", "require 'Pheanstalk/autoload.php';"])

    def test_beaneater(self):
        self.run_client("ruby", "login.rb", ["ruby", "-e", "require 'beaneater'"])

    def test_jackd_and_node_beanstalk(self):
        self.run_client("node", "login.mjs",
                        ["ls", "node_modules/jackd", "node_modules/node-beanstalk"])


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
