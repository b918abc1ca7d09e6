# SPDX-License-Identifier: Apache-2.0
"""The verbs that go over the HTTP API, tokens, and what holds for all verbs.

    python3 cli_http_test.py build/gcc-release/bin/carillon
"""

import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import cli
from cli_server import HttpServer

COLUMNS = cli.COLUMNS
LIMIT_S = cli.LIMIT_S
STALE = "0123456789abcdef.1"


class Verbs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.server = cls.stack.enter_context(HttpServer())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def setUp(self):
        # A tube of each test's own.
        self.tube = self.id().rsplit(".", 1)[1]

    def verb(self, *words, stdin=b"", status=0):
        """Standard output; standard error is kept."""
        got, out, self.err = self.server.verb(*words, stdin=stdin)
        self.assertEqual(got, status, (words, out, self.err))
        return out

    def json(self, *words, stdin=b"", status=0):
        return json.loads(self.verb(*words, "--json", stdin=stdin, status=status))

    def lines(self, *words):
        return [json.loads(line) for line in self.verb(*words, "--json").splitlines()]

    def put(self, *words):
        return self.json("put", "--tube", self.tube, *words)["id"]

    def test_put_with_a_key(self):
        words = ["put", "-t", self.tube, "--key", "ä/1"]
        first = self.json(*words, "a")
        self.assertEqual(first, {"id": first["id"], "existing": False, "replaced": False})
        self.assertEqual(self.json(*words, "b"), {**first, "existing": True})
        self.assertEqual(self.verb("peek", "-t", self.tube, "--key", "ä/1"), "a\n")
        self.verb(*words, "--on-conflict", "refuse", "b", status=1)
        self.assertIn("--key: a job of this tube has the key already", self.err)
        second = self.json(*words, "--on-conflict", "replace", "b")
        self.assertEqual((second["replaced"], second["id"] > first["id"]), (True, True))
        self.assertEqual(self.json("peek", "-t", self.tube, "--key", "ä/1"),
                         {"id": second["id"], "size": 1, "body": "b"})

    def test_put_with_all_that_http_knows(self):
        job = self.put("--due-at", "2099-01-31T12:00:00+01:00", "--ttr", "1500ms", "--priority",
                       "7", "--key", "k", "--max-attempts", "3", "--backoff", "250ms",
                       "--backoff-cap", "1m", "--backoff-jitter", "--content-type",
                       "application/json", "{}")
        shown = self.json("show", str(job))
        by_key = self.json("show", "-t", self.tube, "--key", "k")
        self.assertEqual(shown | {name: by_key[name] for name in
                                  ("age_ms", "due_in_ms", "created_at")}, by_key)
        expected = {"id": job, "state": "delayed", "due_at": "2099-01-31T11:00:00.000Z",
                    "ttr_ms": 1500, "priority": 7, "key": "k", "max_attempts": 3, "size": 2,
                    "backoff": {"base_ms": 250, "cap_ms": 60000, "jitter": True},
                    "content_type": "application/json"}
        self.assertEqual({name: shown[name] for name in expected}, expected)
        text = self.verb("show", str(job))
        self.assertRegex(text, r"(?m)^backoff\.cap_ms +60000$")
        self.assertNotIn("body", text)

    def test_a_body_of_any_bytes_goes_over_http(self):
        self.verb("put", "-t", self.tube, "--key", "k", stdin=b"\xff\x00\n")
        done = subprocess.run([cli.BINARY, "peek", "-t", self.tube, "--key", "k", "--http",
                               self.server.http], capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.stdout, b"\xff\x00\n")

    def test_a_delay_over_http_is_exact(self):
        self.put("--key", "k", "--delay", "90500ms", "x")
        self.assertIn(self.json("show", "-t", self.tube, "-k", "k")["due_in_ms"],
                      range(60_000, 90_501))

    def reserve(self, *words):
        return self.json("reserve", "-t", self.tube, "--receipt", *words)

    def test_a_receipt_outlives_its_command(self):
        job = self.put("x")
        taken = self.reserve()
        self.assertEqual((taken["id"], taken["body"], taken["attempt"]), (job, "x", 1))
        self.assertEqual(self.json("show", str(job))["state"], "reserved")
        self.assertEqual(self.json("touch", str(job), taken["receipt"]),
                         {"id": job, "state": "reserved"})
        self.assertEqual(self.json("ack", str(job), taken["receipt"]),
                         {"acked": [job], "stale": []})
        self.assertEqual(self.json("ack", str(job), taken["receipt"], status=1),
                         {"acked": [], "stale": [job]})
        self.assertIn(f"no longer reserved for this receipt: {job}", self.err)
        self.verb("show", str(job), status=1)
        self.assertIn("there is no such job", self.err)

    def test_reserve_for_a_receipt_as_text(self):
        job = self.put("x")
        self.assertEqual(self.verb("reserve", "-t", self.tube, "--receipt"), "x\n")
        self.assertRegex(self.err, rf"^{job} [0-9a-f]{{16}}\.1\n$")
        begin = time.monotonic()
        self.verb("reserve", "-t", self.tube, "--receipt", "--timeout", "300ms", status=1)
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        self.assertIn("TIMED_OUT: no job was ready in " + self.tube, self.err)

    def test_many_are_reserved_and_acked_by_lines(self):
        jobs = [self.put(str(i)) for i in range(5)]
        out = self.verb("reserve", "-t", self.tube, "--receipt", "--json", "--max", "10")
        self.assertEqual([json.loads(line)["id"] for line in out.splitlines()], jobs)
        self.assertEqual(self.json("ack", "-", stdin=out.encode()), {"acked": jobs, "stale": []})
        self.verb("ack", "-", stdin=b'\n{"id":1}\n', status=2)
        self.assertIn("standard input, line 2: RECEIPT", self.err)

    def test_release_and_bury(self):
        job = self.put("--max-attempts", "2", "x")
        receipt = self.reserve()["receipt"]
        self.assertEqual(self.json("release", str(job), receipt, "--delay", "1h", "-p", "3"),
                         {"id": job, "state": "released"})
        shown = self.json("show", str(job))
        self.assertEqual((shown["state"], shown["priority"]), ("delayed", 3))
        self.verb("change", str(job), "--delay", "0s")
        self.assertEqual(self.verb("release", str(job), self.reserve()["receipt"]), "buried\n")
        self.verb("kick", str(job))
        self.assertEqual(self.json("bury", str(job), self.reserve()["receipt"]),
                         {"id": job, "state": "buried"})
        self.verb("bury", str(job), receipt, status=1)
        self.assertIn("RECEIPT: the reservation is over, and nothing was changed", self.err)

    def test_change(self):
        job = self.put("--key", "k", "x")
        changed = self.json("change", "-t", self.tube, "--key", "k", "--due-at", "4102444800000")
        self.assertEqual((changed["id"], changed["due_at"]), (job, "2100-01-01T00:00:00.000Z"))
        self.assertEqual(self.verb("change", str(job), "--priority", "9"), "")
        self.assertEqual(self.json("show", str(job))["priority"], 9)
        self.verb("change", str(job), status=2)
        self.assertIn("--delay, --due-at or --priority is required", self.err)

    def test_cancel(self):
        kept = self.put("--key", "kept", "x")
        self.reserve()
        gone = self.put("--key", "gone", "x")
        self.assertEqual(self.json("cancel", "999999", str(gone), str(kept), status=1),
                         {"cancelled": [gone], "missing": [999999], "reserved": [kept]})
        self.assertIn("job 999999 does not exist", self.err)
        self.assertIn(f"job {kept} is being worked on", self.err)
        self.put("--key", "gone", "x")
        self.assertEqual(self.json("cancel", "-t", self.tube, "--key", "gone"),
                         {"cancelled": ["gone"], "missing": [], "reserved": []})
        self.verb("cancel", status=2)
        self.assertIn("ID or --key is required", self.err)

    def test_search(self):
        early = self.put("--due-at", "2098-01-01T00:00:00Z", "--key", "a1", "x")
        late = self.put("--due-at", "2099-01-01T00:00:00Z", "--key", "b1", "x")
        ready = self.put("--key", "a2", "x")
        search = ["search", "-t", self.tube]

        def ids(*words):
            return [job["id"] for job in self.lines(*search, *words)]

        self.assertEqual(ids(), [early, late, ready])
        self.assertEqual(ids("--state", "ready"), [ready])
        self.assertEqual(ids("--state", "ready", "--state", "buried"), [ready])
        self.assertEqual(ids("--key-prefix", "a"), [early, ready])
        self.assertEqual(ids("--due-from", "2098-06-01T00:00:00Z"), [late])
        self.assertEqual(ids("--due-until", "2099-01-01T00:00:00Z"), [early])
        out = self.verb(*search)
        self.assertRegex(out, rf"(?m)^ +{early}  delayed   2098-01-01T00:00:00.000Z +1  a1$")
        self.assertLessEqual(max(map(len, out.splitlines())), COLUMNS)
        self.assertIn(f"  {self.tube}  a1\n", self.verb("search", "--limit", "0"))
        self.assertEqual(self.verb("search", "-t", "nobody", status=1), "")
        self.assertIn("--tube: there is no such tube", self.err)
        self.assertEqual(self.verb(*search, "--key-prefix", "z"), "")
        self.verb(*search, "--state", "ready", "--due-from", "0", status=2)
        self.assertIn("--due-from and --due-until are for --state delayed", self.err)

    def test_stats_and_top_count_what_is_done_over_http(self):
        with HttpServer() as server:
            def call(method, path, body=None):
                connection = http.client.HTTPConnection(server.http, timeout=LIMIT_S)
                connection.request(method, "/api/v1/" + path, json.dumps(body),
                                   {"Content-Type": "application/json"})
                with connection.getresponse() as answer:
                    self.assertLess(answer.status, 300)
                    found = json.loads(answer.read() or "null")
                connection.close()
                return found

            with subprocess.Popen(
                    [cli.BINARY, "top", "--json", "--interval", "300ms", "-s",
                     server.address], stdout=subprocess.PIPE, text=True) as top:
                json.loads(top.stdout.readline())
                waiter = http.client.HTTPConnection(server.http, timeout=LIMIT_S)
                waiter.request("POST", "/api/v1/reserve",
                               json.dumps({"tubes": ["nobody"], "wait_ms": 60000}),
                               {"Content-Type": "application/json"})
                for i in range(20):
                    call("POST", "tubes/mail/jobs", {"body": str(i)})
                jobs = call("POST", "reserve", {"tubes": ["mail"], "max": 15})["jobs"]
                call("POST", "ack", {"jobs": [{"id": job["id"], "receipt": job["receipt"]}
                                              for job in jobs[:12]]})
                # The rates end with those of the second in which all that was done.
                sums = {"puts_per_s": 0, "reserves_per_s": 0, "deletes_per_s": 0}
                while sums["deletes_per_s"] == 0:
                    line = json.loads(top.stdout.readline())
                    for name in sums:
                        sums[name] += line[name]
                line = json.loads(top.stdout.readline())
                top.terminate()
            self.assertTrue(all(sums.values()), sums)
            self.assertEqual((line["connections"], line["waiting"], line["ready"],
                              line["reserved"]), (1, 1, 5, 3))
            stats = json.loads(server.verb("stats", "--json")[1])
            self.assertEqual({name: stats[name] for name in stats
                              if name.startswith("carillon-")},
                             {"carillon-puts": 20, "carillon-reserves": 15,
                              "carillon-deletes": 12, "carillon-http-connections": 1,
                              "carillon-http-waiting": 1})
            self.assertEqual((stats["cmd-put"], stats["current-waiting"]), (0, 0))
            waiter.close()

    def test_search_follows_the_cursor_to_the_end(self):
        lines = "".join(json.dumps({"body": "x", "delay_ms": 3600000 * (i % 2)}) + "\n"
                        for i in range(2500))
        connection = http.client.HTTPConnection(self.server.http, timeout=LIMIT_S)
        connection.request("POST", f"/api/v1/tubes/{self.tube}/jobs:batch", lines,
                           {"Content-Type": "application/x-ndjson"})
        connection.getresponse().read()
        connection.close()
        found = [job["id"] for job in self.lines("search", "-t", self.tube, "-n", "0")]
        self.assertEqual((len(found), len(set(found))), (2500, 2500))
        self.assertEqual(len(self.lines("search", "-t", self.tube, "-n", "1400")), 1400)
        self.assertIn("there are more than 1400", self.err)
        self.assertEqual(len(self.lines("search", "-t", self.tube, "-n", "2500")), 2500)
        self.assertEqual(self.err, "")
        self.assertEqual(self.json("clear", "-t", self.tube, "--state", "ready"),
                         {"tube": self.tube, "cleared": 1250})
        self.assertEqual(self.verb("clear", "-t", self.tube, "--state", "all"), "1250\n")
        self.verb("clear", "-t", "nobody", "--state", "all", status=1)
        self.assertIn("--tube: there is no such tube", self.err)

    def test_ls_long(self):
        self.put("x")
        self.put("--delay", "1h", "x")
        tube, = self.json("ls", "--long", "--prefix", self.tube)["tubes"]
        self.assertEqual((tube["ready"], tube["delayed"], tube["total_jobs"]), (1, 1, 2))
        self.assertIn(tube["next_due_in_ms"], range(3_500_000, 3_600_001))
        out = self.verb("ls", "-l", "--prefix", self.tube)
        self.assertRegex(out, rf"(?m)^ +1 +1 +0 +0 +\d+s +(59|60)m  {self.tube}$")
        short, = self.json("ls", "--prefix", self.tube)["tubes"]
        self.assertEqual(short, {name: tube[name] for name in short})

    def test_schedules(self):
        made = self.json("schedule", "set", "nightly/1", "30 2 * * *", "-t", self.tube,
                         "--time-zone", "Europe/Amsterdam", "--missed", "skip", "--overlap",
                         "queue", "--jitter", "5s", "--max-attempts", "2", "do it")
        self.assertEqual(made["spec"], "CRON_TZ=Europe/Amsterdam 30 2 * * *")
        self.assertEqual((made["body"], made["missed"], made["overlap"], made["jitter_ms"],
                          made["max_attempts"]), ("do it", "skip", "queue", 5000, 2))
        self.assertIn(made, self.lines("schedule", "ls"))
        self.assertRegex(self.verb("schedule", "ls"), r"(?m)^\d{4}-\S+Z +0  \S+ +nightly/1$")
        self.assertEqual(self.json("schedule", "show", "nightly/1"), made)
        self.assertRegex(self.verb("schedule", "show", "nightly/1"), r"(?m)^runs +0$")
        job = self.json("schedule", "run", "nightly/1")["id"]
        self.assertEqual(self.json("show", str(job))["schedule"], "nightly/1")
        self.verb("schedule", "run", "nightly/1", status=1)
        self.assertEqual(self.json("schedule", "rm", "nightly/1", "none", status=1),
                         {"deleted": ["nightly/1"], "missing": ["none"]})
        self.assertIn('carillon schedule rm: there is no schedule "none"', self.err)
        self.verb("schedule", "show", "nightly/1", status=1)
        self.assertIn("NAME: there is no such schedule. carillon schedule ls", self.err)
        # The same words as those of schedule next, by the same clocks.
        india = ["0 2 1 1 *", "--time-zone", "Asia/Kolkata"]
        self.assertEqual(self.verb("schedule", "set", "yearly", *india, "-t", self.tube, "x"),
                         self.verb("schedule", "next", *india, "-n", "1"))
        self.assertIn("T02:00:00.000+05:30", self.verb("schedule", "next", *india))
        self.verb("schedule", "rm", "yearly")
        self.verb("schedule", "set", "n", "61 2 * * *", "-t", self.tube, "x", status=2)
        self.assertIn("minute", self.err)
        out = self.verb("schedule", "set", "tick", "every 30m", "-t", self.tube,
                        stdin=b"from stdin")
        self.assertRegex(out, r"^\d{4}-\S+Z\n$")
        self.assertEqual(self.json("schedule", "show", "tick")["body"], "from stdin")
        self.verb("schedule", "rm", "tick")

    def test_schedule_show_next(self):
        words = ["30 2 * * *", "--time-zone", "Europe/Amsterdam"]
        self.verb("schedule", "set", "even", *words, "-t", self.tube, "x")
        self.assertEqual(self.verb("schedule", "show", "even", "--next", "400"),
                         self.verb("schedule", "next", *words, "-n", "400"))
        # The jitter, of which every time has as much, is in what is shown.
        made = self.json("schedule", "set", "spread", *words, "-t", self.tube, "--jitter", "1h",
                         "x")
        self.assertGreater(made["next_at"], made["due_at"])
        found = self.json("schedule", "show", "spread", "-n", "3")
        periods = self.json("schedule", "next", *words, "-n", "3")
        self.assertEqual({**found, "times": 0}, {**periods, "times": 0})
        self.assertEqual([time["due_at"] for time in found["times"]],
                         [time["due_at"] for time in periods["times"]])
        self.assertEqual(found["times"][0]["next_at"], made["next_at"])
        self.assertEqual(len({time["next_at"][13:] for time in found["times"]}), 1)
        self.assertEqual(self.verb("schedule", "show", "spread", "-n", "3").splitlines(),
                         [time["shown"] for time in found["times"]])
        self.verb("schedule", "rm", "even", "spread")
        for count, named in [("0", "1 to 10000"), ("10001", "1 to 10000"), ("x", "not a number"),
                             ("", "not a number")]:
            self.verb("schedule", "show", "even", "--next", count, status=2)
            self.assertRegex(self.err, f"--next: .*{named}")

    def test_wrong_values_name_the_option_and_the_limit(self):
        for words, named in [
                (["put", "--due-at", "tomorrow", "x"], "--due-at: 'tomorrow' is neither a date"),
                (["put", "--due-at", "1", "--delay", "1s", "x"], "excludes --d"),
                (["put", "--key", "", "x"], "--key: is not 1 to 200 bytes"),
                (["put", "--key", "k" * 201, "x"], "--key: is not 1 to 200 bytes"),
                (["put", "--max-attempts", "0", "x"], "0 is out of range (1 to 1000000)"),
                (["put", "--backoff", "0s", "x"], "--backoff: 0s is out of range (1ms to"),
                (["put", "--backoff", "5s", "--backoff-cap", "1s", "x"], "--backoff-cap: "),
                (["put", "--backoff-jitter", "x"], "--backoff"),
                (["put", "--content-type", "text", "x"], "--content-type: 'text' is not"),
                (["put", "--on-conflict", "refuse", "x"], "--key"),
                (["ack", "1"], "ID and RECEIPT are required"),
                (["ack", "1", "x"], "RECEIPT: 'x' is none"),
                (["release", "x", STALE], "ID: 'x' is not a number"),
                (["touch", "1"], "RECEIPT is required"),
                (["reserve", "--max", "2"], "--max requires --receipt"),
                (["reserve", "--receipt", "--max", "2"], "--max: several jobs are printed with"),
                (["reserve", "--receipt", "--max", "1001", "--json"], "from 0 to 1000"),
                (["reserve", "--receipt", "--delete"], "excludes --"),
                (["search", "--state", "gone"], "--state"),
                (["search", "--limit", "x"], "--limit: 'x' is not a number"),
                (["search", "--key-prefix", "\x01"], "--key-prefix: is not"),
                (["clear", "-t", "x"], "--state is required"),
                (["clear", "-t", "x", "--state", "reserved"], "--state"),
                (["schedule", "set", "", "@daily", "-t", "x", "y"], "NAME: is not 1 to 200"),
                (["schedule", "rm"], "NAME is required")]:
            self.verb(*words, status=2)
            self.assertIn(named, self.err, words)

    def test_stale_receipts_end_with_1(self):
        for verb in ["ack", "release", "bury", "touch"]:
            self.verb(verb, "1", STALE, status=1)

    def test_where_the_api_is(self):
        self.assertEqual(cli.run("search", "--http", self.server.http)[0], 0)
        self.assertEqual(cli.run("--http", self.server.http, "search")[0], 0)
        status, out, err = cli.run("search", "--http", "127.0.0.1:1")
        self.assertEqual((status, out), (3, ""))
        self.assertIn("HTTP API at 127.0.0.1:1: connect", err)
        # The host of --server, and a port that nobody listens on here.
        status, _, err = cli.run("search", CARILLON_SERVER="127.77.77.77:5", CARILLON_HTTP="",
                                 CARILLON_TOKEN="x")
        self.assertEqual(status, 2)
        self.assertIn("CARILLON_HTTP", err)
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("CARILLON_")}
        done = subprocess.run([cli.BINARY, "-s", "127.77.77.77:5", "search"],
                              capture_output=True, timeout=LIMIT_S, check=False, env=environment)
        self.assertIn(b"127.77.77.77:11380", done.stderr)
        # What listens there, but is no HTTP API.
        self.assertEqual(cli.run("search", "--http", self.server.address)[0], 3)


class Tokens(unittest.TestCase):
    def test_a_token_is_shown_to_both_protocols(self):
        with tempfile.TemporaryDirectory(prefix="carillon-cli-") as folder:
            tokens, mine, wrong = (os.path.join(folder, name) for name in ("all", "mine", "wrong"))
            for path, text in [(mine, "secret-1\n"), (wrong, "secret-2"), (
                    tokens, f"admin {hashlib.sha256(b'secret-1').hexdigest()}\n")]:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            with HttpServer("--http-tokens", tokens, "--login-tokens", tokens) as server:
                for words in [["ls"], ["put", "--key", "k", "x"], ["search"], ["put", "x"],
                              ["kick"], ["schedule", "ls"], ["top", "--json", "--count", "1"]]:
                    for given in [words + ["--token-file", mine], ["--token-file", mine] + words]:
                        self.assertEqual(server.verb(*given)[0], 0, given)
                    self.assertEqual(server.verb(*words, CARILLON_TOKEN="secret-1")[0], 0)
                    self.assertEqual(server.verb(*words, CARILLON_TOKEN_FILE=mine,
                                                 CARILLON_TOKEN="x")[0], 0)
                    for given in [words, words + ["--token-file", wrong]]:
                        status, _, err = server.verb(*given)
                        self.assertEqual(status, 3, given)
                        self.assertNotIn("secret", err)
                self.assertIn("login-tokens", server.verb("ls")[2])
                self.assertIn("--token-file: there is no bearer token", server.verb("search")[2])
                self.assertIn("LOGIN_FAILED", server.verb("ls", "--token-file", wrong)[2])
                status, _, err = server.verb("ls", "--token-file", folder)
                self.assertEqual(status, 2)
                self.assertIn(f"--token-file: '{folder}' cannot be read", err)
                status, _, err = server.verb("ls", CARILLON_TOKEN="a b")
                self.assertEqual(status, 2)
                self.assertIn("CARILLON_TOKEN: a token is 1 to 200 printable bytes", err)
                self.assertNotIn("a b", err)
            self.assertNotIn("secret", "".join(server.log))

    def test_a_server_that_wants_none_is_given_it_for_nothing(self):
        with HttpServer() as server:
            for words in [["ls"], ["search"]]:
                self.assertEqual(server.verb(*words, CARILLON_TOKEN="secret")[0], 0)


class EveryVerb(unittest.TestCase):
    """What holds for all verbs, the inner ones of `schedule` included."""

    # What they print is a configuration or a log, which has --log-format; a script for a shell.
    WITHOUT_JSON = {"serve", "completions"}
    # Of those that print something without a server. All of `folder` and `job` is made up.
    NEEDS_NONE = {
        "plan": ["--max-delay", "1h", "--pending", "1000"], "trace": ["--story", "b"],
        "version": [], "schedule next": ["@daily"],
    }
    NEEDS_SERVER = {
        "put": ["x"], "reserve": [], "ack": ["1", STALE], "release": ["1", STALE],
        "bury": ["1", STALE], "touch": ["1", STALE], "delete": ["{job}"], "peek": [],
        "show": ["{job}"], "change": ["{job}", "--delay", "1s"], "cancel": ["{job}"],
        "search": [], "clear": ["-t", "default", "--state", "buried"], "ls": [], "stats": [],
        "kick": [], "pause": ["-t", "default", "--for", "1ms"], "resume": ["-t", "default"],
        "top": ["--count", "1", "--interval", "100ms"],
        "bench": ["--jobs", "10", "--delayed", "1"],
        "schedule set": ["n", "@daily", "-t", "t", "x"], "schedule ls": [],
        "schedule show": ["n"], "schedule run": ["n"], "schedule rm": ["n"],
    }
    # Tested with folders, in cli_operations_test.py.
    NEEDS_FOLDER = {"check", "backup", "restore"}
    # Those that end with 1 here, having nothing to say.
    SILENT = {"release", "bury", "touch"}

    @staticmethod
    def verbs():
        def inner(words):
            help_text = cli.run(*words, "--help")[1]
            if "Subcommands:" not in help_text:
                return [" ".join(words)]
            names = re.findall(r"(?m)^  ([a-z]+)  ", help_text[help_text.index("Subcommands:"):])
            return [verb for name in names for verb in inner([*words, name])]

        return inner([])

    def test_every_verb_is_here(self):
        known = (self.WITHOUT_JSON | set(self.NEEDS_NONE) | set(self.NEEDS_SERVER)
                 | self.NEEDS_FOLDER)
        self.assertEqual(set(self.verbs()), known)

    def test_every_verb_has_json_and_says_what_is_in_it(self):
        with open(os.path.join(cli.ROOT, "docs/reference/cli.md"), encoding="utf-8") as page:
            text = page.read()
        table = text[text.index("\n## JSON"):]
        documented = set(re.findall(r"`([a-z ]+)`", "".join(
            re.findall(r"(?m)^\| (`[a-z ]+`(?:, `[a-z ]+`)*) \|", table))))
        for verb in self.verbs():
            with self.subTest(verb=verb):
                self.assertIn("carillon " + verb, text)
                help_text = cli.run(*verb.split(), "--help")[1]
                self.assertLessEqual(max(map(len, help_text.splitlines())), COLUMNS)
                self.assertEqual(bool(re.search(r"(?m)^  --json\b", help_text)),
                                 verb not in self.WITHOUT_JSON)
                if verb not in self.WITHOUT_JSON:
                    self.assertIn(verb, documented)

    def test_json_is_json(self):
        with HttpServer() as server:
            job = json.loads(server.verb("put", "--json", "first")[1])["id"]
            for verb, words in {**self.NEEDS_NONE, **self.NEEDS_SERVER}.items():
                with self.subTest(verb=verb):
                    words = [str(job) if word == "{job}" else word for word in words]
                    if verb in ("delete", "cancel"):
                        server.verb("put", "another")
                    status, out, err = server.verb(*verb.split(), *words, "--json")
                    expected = {"ack": 1, "cancel": 1} | {verb: 1 for verb in self.SILENT}
                    if verb == "delete":
                        job = json.loads(server.verb("put", "--json", "next")[1])["id"]
                    if verb in expected:
                        self.assertIn(status, (0, 1), err)
                    else:
                        self.assertEqual(status, 0, err)
                    values = [json.loads(line) for line in out.splitlines()]
                    self.assertTrue(values or verb in self.SILENT)
                    self.assertTrue(all(isinstance(value, dict) for value in values))

    def test_errors_of_the_connection_are_the_same_for_all(self):
        for verb, words in self.NEEDS_SERVER.items():
            words = ["1" if word == "{job}" else word for word in words]
            with self.subTest(verb=verb):
                status, out, err = cli.run(*verb.split(), *words, "--json",
                                           CARILLON_SERVER="127.0.0.1:1",
                                           CARILLON_HTTP="127.0.0.1:1")
                self.assertEqual((status, out), (3, ""))
                self.assertTrue(err.startswith(f"carillon {verb}: "), err)
                self.assertIn("Connection refused", err)
                self.assertRegex(err, "--http or the variable CARILLON_HTTP|"
                                      "--server or the variable CARILLON_SERVER")

    def test_refusals_of_puts_say_why_and_what_to_do(self):
        for option, word, reason in [
                (["--max-jobs-in-memory", "1"], "OUT_OF_MEMORY: ", "max-jobs-in-memory"),
                (["--drain-mode"], "DRAINING: ", "SIGUSR1")]:
            drained = option == ["--drain-mode"]
            with HttpServer(*([] if drained else option)) as server:
                if drained:
                    server.process.send_signal(signal.SIGUSR1)
                for words, known in [(["put", "x"], word), (["put", "--key", "k", "x"], "")]:
                    until = time.monotonic() + LIMIT_S
                    status = 0
                    while status == 0 and time.monotonic() < until:
                        status, _, err = server.verb(*words)
                    self.assertEqual(status, 3, err)
                    self.assertIn(known, err)
                    self.assertIn(reason, err)


if __name__ == "__main__":
    cli.BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
