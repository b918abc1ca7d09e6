#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What SIGHUP changes: docs/reference/config.md says it of each option, and the server does so.

    reload_test.py CARILLON
"""

import hashlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "..", "crash"))

from client import HOST, Server  # pylint: disable=wrong-import-position
from webhook_endpoint import Endpoint  # pylint: disable=wrong-import-position

BINARY = None
REFERENCE = os.path.join(HERE, "..", "..", "..", "docs", "reference", "config.md")
LIMIT_S = 20

# Another value than the default, of each, and what that needs besides.
OTHERS = {
    "listen": '"127.0.0.1:1"', "listen-tls": '"127.0.0.1:2"', "http-listen": '"127.0.0.1:3"',
    "https-listen": '"127.0.0.1:4"', "data": '"elsewhere"', "memory": "true", "partitions": "2",
    "max-job-size": "1000", "tubes-in-turn": "true", "horizon": '"7m"', "body-budget": '"1MiB"',
    "max-jobs-in-memory": "1000", "max-tubes": "1000", "max-connections": "100",
    "http-tokens": '"TOKENS"', "login-tokens": '"TOKENS"', "login-timeout": '"9s"',
    "http-insecure": "true", "http-allowed-host": '"jobs.example"',
    "tls-cert": '"nowhere"', "tls-key": '"nowhere"', "tls-client-ca": '"nowhere"',
    "http-max-connections": "50", "http-max-requests": "9", "http-max-header": '"2KiB"',
    "http-max-body": '"2KiB"', "http-max-bodies": '"2KiB"', "http-idle-timeout": '"9s"',
    "http-header-timeout": '"9s"', "http-body-timeout": '"9s"', "http-write-timeout": '"9s"',
    "max-unsent": '"2KiB"', "max-unanswered": "100", "max-unanswered-size": '"2KiB"',
    "max-batch-mutations": "1000", "max-batch-size": '"1MiB"', "memtable-size": '"2MiB"',
    "block-cache-size": '"2MiB"', "max-log-size": '"2MiB"', "min-free-space": '"1KiB"',
    "backup-folder": '"backups"', "accept-loss": "true", "hold": "true",
    "webhook-allow": '"10.0.0.0/8"',
    "webhook-connections": "10",
    "webhook-ca-file": '"/etc/ssl/certs/ca-certificates.crt"', "metrics-tubes": "3",
    "drain-timeout": '"9s"', "log-level": '"debug"', "log-format": '"json"',
}
TLS = {"tls-cert": '"nowhere"', "tls-key": '"nowhere"'}
NEEDS = {"listen-tls": TLS, "https-listen": TLS, "tls-cert": {"tls-key": '"nowhere"'},
         "tls-key": {"tls-cert": '"nowhere"'}, "tls-client-ca": TLS}


def documented():
    """{option: whether SIGHUP changes it}, from the reference."""
    found = {}
    column = None
    with open(REFERENCE, encoding="utf-8") as page:
        for line in page:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if cells[0] == "name":
                column = cells.index("SIGHUP")
            elif line.startswith("| `"):
                assert cells[column] in ("yes", "no"), line
                for name in re.findall(r"`([a-z-]+)`", cells[0]):
                    found[name] = cells[column] == "yes"
    return found


class ReloadTest(unittest.TestCase):
    def setUp(self):
        self.config = None
        self.tokens = None
        self.server = None

    def start(self, **options):
        """With a file of these options; the addresses and the store are given by flags."""
        folder = os.popen("mktemp -d").read().strip()
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=False)
        self.tokens = os.path.join(folder, "tokens")
        with open(self.tokens, "w", encoding="ascii") as file:
            file.write(f"admin {hashlib.sha256(b'a').hexdigest()}\n")
        self.config = os.path.join(folder, "carillon.toml")
        self.write(options)
        self.server = Server(BINARY, "--config", self.config, durable=True)
        self.addCleanup(self.server.stop)

    def write(self, options):
        with open(self.config, "w", encoding="utf-8") as file:
            for name, value in options.items():
                file.write(f"{name.replace('_', '-')} = {value}\n")

    def reload(self, **options):
        """Returns what is logged of it."""
        self.write(options)
        before = len(self.server.log())
        self.server.signal("HUP")
        deadline = time.monotonic() + LIMIT_S
        while "read again" not in (log := self.server.log()[before:]):
            self.assertLess(time.monotonic(), deadline, log)
            self.assertNotIn("nothing is changed", log)
            time.sleep(0.005)
        return log

    def fail_to_reload(self, why, **options):
        """The log says once what is wrong and that nothing changed, and nothing else."""
        self.write(options)
        before = len(self.server.log())
        self.server.signal("HUP")
        deadline = time.monotonic() + LIMIT_S
        while why not in (log := self.server.log()[before:]):
            self.assertLess(time.monotonic(), deadline, log)
            time.sleep(0.005)
        self.server.get("/healthz")  # What would follow has been said by now.
        log = self.server.log()[before:]
        self.assertEqual(log.count("\n"), 1, log)
        self.assertIn("nothing is changed: ", log)

    def test_a_file_that_cannot_be_read_changes_nothing_of_either_protocol(self):
        self.start(max_job_size="2000")
        folder = os.path.dirname(self.config)
        broken = os.path.join(folder, "broken")
        with open(broken, "w", encoding="ascii") as file:
            file.write("nonsense\n")
        with open(os.path.join(folder, "empty"), "w", encoding="ascii"):
            pass
        big = os.path.join(folder, "big")
        with open(big, "w", encoding="ascii") as file:
            file.truncate(2 << 20)
        fifo = os.path.join(folder, "fifo")
        os.mkfifo(fifo)
        for option in ("http_tokens", "login_tokens", "webhook_ca_file"):
            for path, why in (("/nope", "No such file"), (folder, "Is a directory"),
                              (fifo, "it is not a regular file"),
                              ("/dev/zero", "it is not a regular file"), (broken, broken),
                              (os.path.join(folder, "empty"), "empty")):
                with self.subTest(option=option, path=path):
                    self.fail_to_reload(why, max_job_size="1000", **{option: f'"{path}"'})
                    self.put_both_ways("x" * 1500, True)
        self.fail_to_reload("it has more than 1 MiB", max_job_size="1000",
                            http_tokens=f'"{big}"')
        # And when it is right, it counts for both.
        self.reload(max_job_size="1000")
        self.put_both_ways("x" * 1500, False)

    def put_both_ways(self, body, taken):
        response = self.server.post("/api/v1/tubes/t/jobs", {"body": body})
        self.assertEqual(response.status, 201 if taken else 413, response)
        with socket.create_connection((HOST, self.server.beanstalk_port), timeout=10) as client:
            client.sendall(f"put 0 0 60 {len(body)}\r\n{body}\r\n".encode())
            answer = client.recv(100)
        self.assertTrue(answer.startswith(b"INSERTED" if taken else b"JOB_TOO_BIG"), answer)

    def test_a_fifo_in_the_place_of_a_file_holds_up_nobody(self):
        self.start()
        self.reload(http_tokens=f'"{self.tokens}"')
        for path in (self.tokens, self.config):
            os.unlink(path)
            os.mkfifo(path)
            before = len(self.server.log())
            self.server.signal("HUP")
            deadline = time.monotonic() + LIMIT_S
            while "it is not a regular file" not in self.server.log()[before:]:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
            self.assertEqual(self.server.get("/api/v1/stats").status, 401)
            self.assertEqual(self.server.get(
                "/api/v1/stats", headers={"Authorization": "Bearer a"}).status, 200)
            os.unlink(path)
            self.write({"http-tokens": f'"{self.tokens}"'})

    def test_a_fifo_is_refused_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            tls = ["--https-listen", f"{HOST}:0"]
            for options in (["--config", fifo], ["--http-tokens", fifo], ["--login-tokens", fifo],
                            ["--webhook-ca-file", fifo],
                            [*tls, "--tls-cert", fifo, "--tls-key", fifo]):
                done = subprocess.run([BINARY, "serve", "--memory", "--listen", f"{HOST}:0",
                                       "--http-listen", f"{HOST}:0", *options],
                                      capture_output=True, text=True, timeout=20, check=False)
                self.assertNotEqual(done.returncode, 0, options)
                self.assertIn(f"'{fifo}' cannot be read: it is not a regular file", done.stderr)

    def test_the_reference_says_of_each_option_whether_it_is_read_again(self):
        options = documented()
        usage = subprocess.run([BINARY, "serve", "--help"], check=True, capture_output=True,
                               text=True).stdout
        flags = set(re.findall(r"^\s+(?:-\w,\s*)?--([a-z-]+)", usage, re.MULTILINE))
        flags -= {"help", "config", "print-config", "version"}
        self.assertEqual(set(options), flags)
        self.assertEqual(set(OTHERS), flags)

    def test_each_option_does_on_sighup_what_the_reference_says(self):
        # Those that the server of this test is given as flags, which go before the file.
        flags = {"data", "listen", "http-listen", "min-free-space"}
        self.start()
        for name, live in documented().items():
            if name in flags:
                self.assertFalse(live, name)
                continue
            with self.subTest(option=name):
                change = {**NEEDS.get(name, {}),
                          name: OTHERS[name].replace("TOKENS", self.tokens)}
                if name == "memory":
                    continue  # Excludes the flag --data: an error, see below.
                log = self.reload(**change)
                if live:
                    self.assertRegex(log, rf"{name} was .* and is |\"option\":\"{name}\"")
                    self.assertNotRegex(log, rf"{name} is .* until a restart")
                else:
                    self.assertRegex(log, rf"{name} is .* until a restart, then")
                self.reload()  # As it was.

    def test_a_mistake_changes_nothing(self):
        self.start(max_job_size="100")
        self.write({"max-job-size": "200", "memory": "true"})
        self.server.signal("HUP")
        self.server.wait_for_log("nothing is changed: memory and data exclude each other")
        response = self.server.post("/api/v1/tubes/t/jobs", {"body": "x" * 150})
        self.assertEqual(response.status, 413, response)

    def test_webhook_allow_counts_from_the_next_post_on(self):
        endpoint = Endpoint(None)
        self.addCleanup(endpoint.close)
        self.start()
        self.server.ask("PUT", "/api/v1/tubes/t/settings", {"webhook": {
            # By name: an address that is not permitted could not be set.
            "url": endpoint.url.replace("127.0.0.1", "localhost"),
            "backoff": {"base_ms": 20, "cap_ms": 20, "jitter": False}, "max_attempts": 0}})

        def state():
            return self.server.get("/api/v1/tubes/t").json["webhook"]

        def wait(what):
            deadline = time.monotonic() + LIMIT_S
            while not what():
                self.assertLess(time.monotonic(), deadline, state())
                time.sleep(0.01)

        self.server.put()
        wait(lambda: state().get("last_outcome") == "refused")
        self.reload(webhook_allow='"127.0.0.1"')
        wait(lambda: state()["delivered"] == 1)
        self.server.put()
        wait(lambda: state()["delivered"] == 2)
        # The connection is kept alive: it is not used any more, though it is there.
        self.reload()
        refused = state()["failed_attempts"]
        self.server.put()
        wait(lambda: state()["failed_attempts"] > refused)
        self.assertEqual(state()["last_outcome"], "refused")
        self.assertEqual(state()["delivered"], 2)

    def test_authorities_that_cannot_be_read_leave_the_webhooks_as_they_are(self):
        endpoint = Endpoint(None)
        self.addCleanup(endpoint.close)
        self.start(webhook_allow='"127.0.0.1"')
        self.server.ask("PUT", "/api/v1/tubes/t/settings", {"webhook": {"url": endpoint.url}})
        self.server.put()
        deadline = time.monotonic() + LIMIT_S
        while self.server.get("/api/v1/tubes/t").json["webhook"]["delivered"] == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        self.fail_to_reload("webhook-ca-file '/nowhere' cannot be read",
                            webhook_allow='"127.0.0.1"', webhook_ca_file='"/nowhere"')
        self.server.put()
        while self.server.get("/api/v1/tubes/t").json["webhook"]["delivered"] < 2:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_metrics_tubes_and_backup_folder_count_from_then_on(self):
        self.start()
        for i in range(5):
            self.server.put(tube=f"tube{i}")

        def shown():
            text = self.server.get("/metrics").raw.decode()
            return set(re.findall(r'tube="(\w+)"', text)) - {"_other"}

        self.assertEqual(len(shown()), 6)  # And the default.
        self.reload(metrics_tubes="2")
        self.assertEqual(len(shown()), 2)
        folder = os.path.join(os.path.dirname(self.config), "backups")
        self.reload(backup_folder=f'"{folder}"')
        self.server.signal("USR2")
        self.server.wait_for_log("files, ")
        self.assertEqual(len(os.listdir(folder)), 1)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
