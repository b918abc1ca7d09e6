#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each role may do: docs/operating/security.md says it of every operation, and the server does
so, for what begins and for what is open when a token is taken away.

    roles_test.py CARILLON
"""

import hashlib
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
import unittest

from client import HOST, Server

BINARY = None
HERE = os.path.dirname(os.path.abspath(__file__))
REFERENCE = os.path.join(HERE, "..", "..", "..", "docs", "operating", "security.md")
ROLES = ("produce", "consume", "admin")
LIMIT_S = 20
SECRET_URL = "https://hooks.example/T0KEN-IN-URL"


def bearer(token):
    return {"Authorization": "Bearer " + token}


def documented():
    """{operation: the roles that may}, from the table in the page."""
    found = {}
    with open(REFERENCE, encoding="utf-8") as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != 3 or cells[0].strip("`") not in (*ROLES, "either"):
                continue
            roles = {"produce", "consume"} if cells[0] == "either" else {cells[0].strip("`")}
            for operation in re.findall(r"`(\w+)`", cells[2]):
                assert operation not in found, operation
                found[operation] = roles | {"admin"}
    return found


class RolesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="carillon-roles-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "tokens")
        self.write({role: role for role in ROLES})
        self.server = Server(BINARY, "--http-tokens", self.path, "--login-tokens", self.path)
        self.addCleanup(self.server.stop)

    def write(self, tokens):
        """Of {token: roles}."""
        with open(self.path, "w", encoding="ascii") as file:
            for token, roles in tokens.items():
                file.write(f"{roles} {hashlib.sha256(token.encode()).hexdigest()}\n")

    def reload(self, tokens):
        self.write(tokens)
        before = self.server.log().count("read again")
        self.server.signal("HUP")
        deadline = time.monotonic() + LIMIT_S
        while self.server.log().count("read again") == before:
            self.assertLess(time.monotonic(), deadline, self.server.log())
            time.sleep(0.005)

    def operations(self):
        """(operation, method, path) of all that the description has."""
        for path, methods in self.server.get("/openapi.json").json["paths"].items():
            for method, operation in methods.items():
                yield operation, method.upper(), path

    def test_each_role_may_do_what_the_page_says_and_nothing_else(self):
        table = documented()
        seen = set()
        for operation, method, path in self.operations():
            name = operation["operationId"]
            roles = set(operation["x-carillon-roles"])
            self.assertEqual(roles, table.get(name, set()), name)
            seen.add(name)
            # Nothing is of that name: what may be done is answered, as ever, but not 401 or 403.
            target = re.sub(r"\{(id)\}", "1", re.sub(r"\{(tube|key|name)\}", "nothing", path))
            for role in (*ROLES, None, "unknown"):
                if name == "getEvents" and role in roles:
                    continue  # It does not end; see below.
                with self.subTest(operation=name, role=role):
                    status = self.server.ask(
                        method, target, {} if method != "GET" else None,
                        bearer(role) if role else {}).status
                    if not roles or role in roles:
                        self.assertNotIn(status, (401, 403))
                    else:
                        self.assertEqual(status, 403 if role in ROLES else 401)
        self.assertEqual(set(table) - seen, set())

    def test_the_settings_of_a_webhook_are_for_admin_only(self):
        response = self.server.ask("PUT", "/api/v1/tubes/t/settings", {
            "max_jobs": 5, "webhook": {"url": SECRET_URL, "secrets": ["sixteen bytes or more"],
                                       "headers": {"X-Key": "hidden"}}}, bearer("admin"))
        self.assertEqual(response.status, 204, response)
        for role in ROLES:
            deadline = time.monotonic() + LIMIT_S
            while "webhook" not in (tube := self.server.get("/api/v1/tubes/t",
                                                            headers=bearer(role)).json):
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            listed = self.server.get("/api/v1/tubes", headers=bearer(role)).json["tubes"]
            for shown in (tube, next(one for one in listed if one["name"] == "t")):
                self.assertEqual(shown["settings"]["max_jobs"], 5)
                self.assertEqual(shown["webhook"]["secrets"], 1)
                self.assertEqual("webhook" in shown["settings"], role == "admin")
                text = json.dumps(shown)
                self.assertEqual("T0KEN-IN-URL" in text, role == "admin")
                self.assertNotIn("sixteen bytes", text)
                self.assertNotIn("hidden", text)
            for path in ("/metrics", "/api/v1/stats", "/api/v1/wheel"):
                raw = self.server.get(path, headers=bearer(role)).raw
                self.assertNotIn(b"T0KEN", raw, path)

    def test_a_token_that_is_taken_away_ends_the_events_that_it_opened(self):
        streams = {}
        for token in ("consume", "admin"):
            connection = self.server.connect(timeout=LIMIT_S)
            self.addCleanup(connection.close)
            connection.request("GET", "/api/v1/events", headers=bearer(token))
            streams[token] = connection.getresponse()
            self.assertTrue(streams[token].readline())
        self.reload({"admin": "admin"})
        while streams["consume"].readline():  # To its end, or the time-out.
            pass
        lines = [streams["admin"].readline() for _ in range(20)]
        self.assertTrue(all(lines), "that of another token goes on")

    @staticmethod
    def connect_beanstalk(server):
        return socket.create_connection((HOST, server.beanstalk_port), LIMIT_S)

    def ask_beanstalk(self, *lines):
        """What the other protocol answers until the server closes, or to a quit."""
        with self.connect_beanstalk(self.server) as connection:
            connection.sendall(b"".join(line + b"\r\n" for line in lines))
            return b"".join(iter(lambda: connection.recv(4096), b""))

    def test_wrong_tokens_are_counted_and_logged_with_where_they_came_from(self):
        for _ in range(3):
            self.assertEqual(self.server.get("/api/v1/tubes", headers=bearer("guessed-1")).status,
                             401)
        # Who shows none is not guessing, and who may not do something is known.
        self.assertEqual(self.server.get("/api/v1/tubes").status, 401)
        self.assertEqual(self.server.post("/api/v1/tubes/t/jobs", {"body": "x"},
                                          headers=bearer("consume")).status, 403)
        self.assertEqual(self.ask_beanstalk(b"login guessed-2", b"use login;guessed-2", b"quit"),
                         b"LOGIN_FAILED\r\nBAD_FORMAT\r\n")
        metrics = self.server.get("/metrics", headers=bearer("admin")).raw.decode()
        self.assertIn('\ncarillon_logins_failed_total{protocol="http"} 3\n', metrics)
        self.assertIn('\ncarillon_logins_failed_total{protocol="beanstalk"} 2\n', metrics)
        self.assertIn("\ncarillon_login_timeouts_total 0\n", metrics)
        log = self.server.log()
        self.assertRegex(log, r"tokens that nobody knows \(http\): 1, the last from 127\.0\.0\.1:\d")
        self.assertEqual(log.count("that nobody knows"), 2, "a line for each protocol")
        self.assertNotIn("guessed", log)

    def test_who_does_not_log_in_is_closed_and_who_has_is_not(self):
        server = Server(BINARY, "--login-tokens", self.path, "--login-timeout", "300ms")
        self.addCleanup(server.stop)
        with self.connect_beanstalk(server) as known:
            known.sendall(b"login consume\r\n")
            self.assertEqual(known.recv(100), b"LOGGED_IN consume\r\n")
            idle = [self.connect_beanstalk(server) for _ in range(20)]
            for connection in idle:
                # Whatever it sends meanwhile, as long as that is no login.
                connection.sendall(b"use default\r\n")
            for connection in idle:
                with connection:
                    self.assertEqual(b"".join(iter(lambda c=connection: c.recv(100), b"")),
                                     b"UNKNOWN_COMMAND\r\n")
            known.sendall(b"use default\r\n")
            self.assertEqual(known.recv(100), b"USING default\r\n")
        self.assertIn(b"\ncarillon_login_timeouts_total 20\n", server.get("/metrics").raw)
        self.assertRegex(server.log(),
                         r"login-timeout: clients that did not log in: \d+, the last from 127\.")

    def wait_for_reserve(self, token):
        """Returns (thread, answers) of a reserve that waits."""
        answers = []
        before = self.server.get("/api/v1/tubes/t", headers=bearer("admin")).json
        waiting = before.get("waiting", 0) if before else 0

        def ask():
            answers.append(self.server.post("/api/v1/reserve", {"tubes": ["t"], "wait_ms": 20_000},
                                            headers=bearer(token)))

        thread = threading.Thread(target=ask)
        thread.start()
        deadline = time.monotonic() + LIMIT_S
        while True:
            tube = self.server.get("/api/v1/tubes/t", headers=bearer("admin")).json
            if tube.get("waiting", 0) > waiting:
                return thread, answers
            self.assertLess(time.monotonic(), deadline, tube)
            time.sleep(0.005)

    def test_a_reserve_that_waits_is_given_no_job_when_its_token_is_taken_away(self):
        for left, status in (({}, 401), ({"consume": "produce"}, 403)):
            self.reload({role: role for role in ROLES})
            thread, answers = self.wait_for_reserve("consume")
            self.reload({"admin": "admin", **left})
            thread.join(LIMIT_S)
            self.assertEqual([answer.status for answer in answers], [status], answers)
            put = self.server.post("/api/v1/tubes/t/jobs", {"body": "x"}, headers=bearer("admin"))
            self.assertEqual(put.status, 201)
            jobs = self.server.post("/api/v1/reserve", {"tubes": ["t"]},
                                    headers=bearer("admin")).json["jobs"]
            self.assertEqual([job["id"] for job in jobs], [put.json["id"]])

    def test_a_reserve_goes_on_if_its_token_stays(self):
        thread, answers = self.wait_for_reserve("consume")
        self.reload({"admin": "admin", "consume": "consume,produce"})
        self.server.post("/api/v1/tubes/t/jobs", {"body": "x"}, headers=bearer("admin"))
        thread.join(LIMIT_S)
        self.assertEqual(len(answers[0].json["jobs"]), 1)

    def test_a_body_that_comes_after_its_token_is_gone_is_refused(self):
        with self.server.socket(LIMIT_S) as client:
            client.sendall(b"POST /api/v1/tubes/t/jobs HTTP/1.1\r\nHost: localhost\r\n"
                           b"Authorization: Bearer produce\r\nContent-Type: text/plain\r\n"
                           b"Content-Length: 2\r\n\r\nx")
            # Read by the time that what was sent later is answered.
            self.assertEqual(self.server.get("/healthz").status, 200)
            self.reload({"admin": "admin"})
            client.sendall(b"y")
            self.assertIn(b" 401 ", client.recv(100))


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
