# SPDX-License-Identifier: Apache-2.0
"""The command line as a user meets it: every verb against a real server, and the exit statuses.

    python3 cli_test.py build/gcc-release/bin/carillon

Long because all verbs share a server.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import cli
from cli import LIMIT_S, ROOT, run
from cli_server import Server


class Verbs(unittest.TestCase):
    """One server for all; each test has tubes of its own."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        folder = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="carillon-cli-"))
        cls.socket = os.path.join(folder, "socket")
        cls.server = cls.stack.enter_context(Server("--listen", "unix:" + cls.socket))
        cls.address = cls.server.address

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def verb(self, *words, stdin=b""):
        return self.server.verb(*words, stdin=stdin)

    def put(self, *words, stdin=b""):
        status, out, err = self.verb("put", *words, stdin=stdin)
        self.assertEqual((status, err), (0, ""))
        return int(out)

    def test_a_job_goes_round(self):
        job = self.put("--tube", "round", "--priority", "5", "hello")
        self.assertEqual(self.verb("peek", "--tube", "round"), (0, "hello\n", f"{job}\n"))
        self.assertEqual(self.verb("peek", str(job)), (0, "hello\n", f"{job}\n"))
        self.assertEqual(self.verb("reserve", "--tube", "round", "--delete"),
                         (0, "hello\n", f"{job}\n"))
        self.assertEqual(self.verb("peek", str(job))[0], 1)

    def test_reserve_without_delete_gives_the_job_back(self):
        job = self.put("--tube", "back", "x")
        for _ in range(2):
            self.assertEqual(self.verb("reserve", "--tube", "back"), (0, "x\n", f"{job}\n"))

    def test_reserve_watches_all_its_tubes_and_no_other(self):
        self.put("elsewhere")
        self.put("--tube", "several-b", "b")
        words = ["reserve", "--tube", "several-a", "--tube", "several-b", "--delete"]
        self.assertEqual(self.verb(*words)[:2], (0, "b\n"))
        status, out, err = self.verb(*words)
        self.assertEqual((status, out), (1, ""))
        self.assertIn("TIMED_OUT", err)

    def test_body_from_standard_input_is_kept_byte_by_byte(self):
        body = b'line one\r\nline "two"\x00\x01\n'
        job = self.put("--tube", "stdin", stdin=body)
        done = subprocess.run([cli.BINARY, "peek", str(job), "--server", self.address],
                              capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.stdout, body)

    def test_json(self):
        job = self.put("--tube", "json", 'a "b" \\ \t c')
        status, out, _ = self.verb("reserve", "--tube", "json", "--json", "--delete")
        self.assertEqual(status, 0)
        self.assertEqual(json.loads(out), {"id": job, "size": 11, "body": 'a "b" \\ \t c'})

    def test_delay_is_rounded_up_to_whole_seconds(self):
        job = self.put("--tube", "delay", "--delay", "90500ms", "--ttr", "2m", "x")
        _, out, _ = self.verb("stats", "--job", str(job))
        self.assertRegex(out, r"(?m)^delay +91$")
        self.assertRegex(out, r"(?m)^ttr +120$")
        self.assertRegex(out, r"(?m)^state +delayed$")
        self.assertEqual(self.verb("peek", "--tube", "delay", "--state", "delayed")[1], "x\n")

    def test_delete_says_which_it_did_not_find(self):
        job = self.put("--tube", "delete", "x")
        status, _, err = self.verb("delete", "999999", str(job))
        self.assertEqual(status, 1)
        self.assertIn("999999", err)
        self.assertNotIn(f" {job}", err)
        self.assertEqual(self.verb("peek", str(job))[0], 1)

    def test_ls_counts_by_state(self):
        self.put("--tube", "ls-tube", "x")
        self.put("--tube", "ls-tube", "--delay", "1h", "x")
        status, out, _ = self.verb("ls")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"(?m)^ +1 +1 +0 +0 +0 +0  ls-tube$")

    def test_ls_does_not_count_itself(self):
        for watchers in range(2):
            with contextlib.ExitStack() as open_ones:
                for _ in range(watchers):
                    client = socket.socket(socket.AF_UNIX)
                    open_ones.enter_context(client)
                    client.settimeout(LIMIT_S)
                    client.connect(self.socket)
                    client.sendall(b"list-tube-used\r\n")
                    self.assertTrue(client.recv(100).startswith(b"USING default"))
                self.assertRegex(self.verb("ls")[1], rf"(?m) {watchers} +0  default$")

    def test_what_is_not_there_is_named(self):
        for words, named in [
                (["peek", "999999"], "NOT_FOUND: there is no job 999999"),
                (["peek", "--tube", "none", "--state", "buried"],
                 "NOT_FOUND: there is no buried job in tube none"),
                (["stats", "--tube", "none"], "NOT_FOUND: there is no tube none"),
                (["stats", "--job", "999999"], "NOT_FOUND: there is no job 999999"),
                (["reserve", "--tube", "none", "--tube", "nil"],
                 "TIMED_OUT: no job was ready in none, nil")]:
            self.assertEqual(self.verb(*words), (1, "", f"carillon {words[0]}: {named}\n"))

    def test_stats_of_server_and_tube(self):
        self.put("--tube", "stats-tube", "x")
        self.assertRegex(self.verb("stats")[1], r"(?m)^draining +false$")
        self.assertRegex(self.verb("stats", "--tube", "stats-tube")[1], r"(?m)^total-jobs +1$")
        self.assertEqual(self.verb("stats", "--tube", "no-such-tube")[0], 1)

    def test_unix_socket(self):
        status, out, _ = run("put", "--server", "unix:" + self.socket, "--tube", "unix", "x")
        self.assertEqual(status, 0)
        self.assertGreater(int(out), 0)

    def test_wrong_usage_ends_with_2_and_names_it(self):
        for words, named in [(["put", "--tube", "a b", "x"], "a b"),
                             (["put", "--delay", "5x", "x"], "--delay"),
                             (["put", "--bogus"], "--bogus"),
                             (["peek", "--state", "lost"], "lost"),
                             (["delete"], "ID"), (["nonsense"], "nonsense"), ([], "verb"),
                             (["ls", "--server", "7"], "--server: address '7'"),
                             (["--server", "7", "ls"], "--server: address '7'"),
                             (["--patience", "x", "ls"], "--patience"),
                             (["reserve", "--wait", "--timeout", "1s"], "--timeout")]:
            status, out, err = self.verb(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(named, err, words)
            self.assertRegex(err, r"^carillon( [a-z]+)?: ", words)
        status, _, err = run("ls", CARILLON_SERVER="7")
        self.assertEqual(status, 2)
        self.assertIn("CARILLON_SERVER: address '7'", err)

    def test_the_server_may_be_named_before_the_verb_and_behind_it(self):
        nobody = "127.0.0.1:1"
        for words, status in [(["-s", self.address, "ls"], 0), (["ls", "-s", self.address], 0),
                              (["--server", nobody, "ls", "--server", self.address], 0),
                              (["--server", self.address, "ls", "--server", nobody], 3),
                              (["--patience", "2s", "-s", self.address, "stats"], 0)]:
            for environment in [{}, {"CARILLON_SERVER": nobody}]:
                self.assertEqual(run(*words, **environment)[0], status, words)
        for words in [["-s", self.address, "serve", "--print-config"],
                      ["--patience", "1s", "serve", "--print-config"]]:
            status, out, err = run(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn("carillon serve: --server and --patience", err)

    def test_numbers_are_decimal_and_in_range_or_wrong_usage(self):
        job = self.put("--tube", "numbers", "x")
        beyond = str(2**64 + job)
        wrapped = str(job - 2**64)
        for word in ["", "x", "-1", "+1", "0x1", "1e0", "1.0", " 1", "1 ", beyond, wrapped]:
            for words, named in [(["delete", "--", word], "ID"), (["peek", "--", word], "ID"),
                                 (["stats", f"--job={word}"] if word else ["stats", "--job", ""],
                                  "--job")]:
                status, out, err = self.verb(*words)
                self.assertEqual((status, out), (2, ""), words)
                self.assertIn(f"{named}: '{word}' is not a number from 0 to {2**64 - 1}", err)
        for word in ["-1", "4294967296", "010x"]:
            status, out, err = self.verb("put", f"--priority={word}", "x")
            self.assertEqual((status, out), (2, ""), word)
            self.assertIn(f"--priority: '{word}' is not a number from 0 to 4294967295", err)
        # Leading zeros do not make it octal.
        self.assertEqual(self.verb("delete", f"000{job}"), (0, "", ""))

    def test_durations_beyond_the_protocol_are_wrong_usage(self):
        for verb, option, most in [("put", "--delay", 2**32 - 1), ("put", "--ttr", 2**32 - 1),
                                   ("reserve", "--timeout", 2**31 - 1)]:
            for value in [str(most + 1), f"{most}001ms", "100000d", "9000000000000s"]:
                status, out, err = self.verb(verb, option, value, stdin=b"x")
                self.assertEqual((status, out), (2, ""), (option, value))
                self.assertIn(f"{option}: {value} is out of range (0s to {most}s)", err)
        job = self.put("--tube", "far", "--delay", "4294967295", "--ttr", "4294967295", "x")
        self.assertRegex(self.verb("stats", "--job", str(job))[1], r"(?m)^delay +4294967295$")

    def test_zero_and_nothing_are_no_defaults(self):
        self.put("x")
        self.assertEqual(self.verb("peek", "0")[:2], (1, ""))
        self.assertEqual(self.verb("stats", "--job", "0")[:2], (1, ""))
        for words in [["stats", "--tube", ""], ["put", "--tube", "", "x"], ["peek", "--tube", ""]]:
            status, out, err = self.verb(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn("--tube", err)

    def run_with(self, redirection, *words):
        """A verb with the shell's redirection; returns (exit status, standard error)."""
        done = subprocess.run(["bash", "-c", f'exec "$@" {redirection}', "-", cli.BINARY, *words],
                              env={**os.environ, "CARILLON_SERVER": self.address},
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S,
                              check=False)
        return done.returncode, done.stderr.decode()

    def test_output_that_cannot_be_written_ends_with_3(self):
        job = self.put("--tube", "full", "x" * 60000)
        for redirection in [">/dev/full", ">&-"]:
            for words in [["put", "--tube", "full-2", "x"], ["stats"], ["ls"], ["version"],
                          ["--help"], ["serve", "--help"], ["serve", "--print-config"],
                          ["peek", "--json", str(job)], ["peek", str(job)],
                          ["reserve", "--delete", "--tube", "full"]]:
                status, err = self.run_with(redirection, *words)
                self.assertEqual(status, 3, (redirection, words))
                self.assertIn("standard output cannot be written", err)
        self.assertEqual(self.verb("peek", str(job))[0], 0)

    def test_errors_that_cannot_be_written_keep_their_status(self):
        job = self.put("--tube", "mute", "x")
        for redirection in ["2>/dev/full", "2>&-"]:
            for expected, words in [(2, ["put", "--tube", "a b", "x"]), (2, ["nonsense"]),
                                    (2, ["serve", "--partitions", "0"]), (1, ["peek", "999999"]),
                                    (3, ["ls", "--server", "127.0.0.1:1"]),
                                    (0, ["peek", str(job)])]:
                self.assertEqual(self.run_with(redirection, *words)[0], expected, words)

    def test_input_that_cannot_be_read_puts_nothing(self):
        for redirection in ["<&-", "</"]:
            status, err = self.run_with(redirection, "put", "--tube", "unread")
            self.assertEqual(status, 2, redirection)
            self.assertIn("standard input", err)
        self.assertEqual(self.verb("peek", "--tube", "unread")[0], 1)

    def test_no_server_ends_with_3(self):
        for address in ["127.0.0.1:1", "unix:/nowhere/socket"]:
            status, _, err = run("ls", "--server", address)
            self.assertEqual(status, 3)
            self.assertIn(address, err)
            self.assertEqual("carillon serve starts one" in err, address == "127.0.0.1:1", err)


class Nonsense(unittest.TestCase):
    """Servers whose answers are not of the protocol."""

    def ask(self, answers, *words):
        """Runs a verb against a server that gives these answers, whatever it is asked."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.settimeout(LIMIT_S)

            def answer():
                connection, _ = listening.accept()
                with connection:
                    connection.settimeout(LIMIT_S)
                    for reply in answers:
                        connection.recv(65536)
                        connection.sendall(reply)
                    while connection.recv(65536):
                        pass

            thread = threading.Thread(target=answer)
            thread.start()
            result = run(*words, "--server", f"127.0.0.1:{listening.getsockname()[1]}")
            thread.join()
            return result

    def test_ends_with_3_and_is_called_so(self):
        for answers, words in [
                ([b"FOUND\r\n"], ["peek", "1"]), ([b"FOUND 1\r\n"], ["peek", "1"]),
                ([b"FOUND 1 18446744073709551615\r\n"], ["peek", "1"]),
                ([b"FOUND 1 18446744073709551616\r\n"], ["peek", "1"]),
                ([b"FOUND 1 1073741825\r\n"], ["peek", "1"]),
                ([b"FOUND 1 -1\r\n"], ["peek", "1"]), ([b"FOUND x 1\r\nx\r\n"], ["peek", "1"]),
                ([b"FOUND 1 1 1\r\nx\r\n"], ["peek", "1"]),
                ([b"FOUND 1 1\r\nxxxx"], ["peek", "1"]),
                ([b"INSERTED 1\r\n"], ["peek", "1"]), ([b"\r\n"], ["peek", "1"]),
                ([b"x" * 2000], ["peek", "1"]), ([b"OK\r\n"], ["stats"]),
                ([b"OK 1x\r\n"], ["stats"]),
                ([b"USING default\r\n", b"INSERTED abc\r\n"], ["put", "x"]),
                ([b"USING default\r\n", b"INSERTED\r\n"], ["put", "x"]),
                ([b"USING default\r\n", b"INSERTED 1 2\r\n"], ["put", "x"]),
                ([b"WATCHING 1\r\n", b"RESERVED\r\n"], ["reserve"]),
                ([b"DELETED\xff\r\n"], ["delete", "1"]),
                ([b"OK 11\r\n---\n- tube\n\r\n", b"WHAT\r\n"], ["ls"])]:
            status, out, err = self.ask(answers, *words)
            self.assertEqual(status, 3, answers)
            self.assertIn("the server answered nonsense", err, answers)
            if words != ["ls"]:
                self.assertEqual(out, "", answers)

    def test_an_error_of_the_protocol_is_told_with_what_it_means(self):
        for error, meaning in [("OUT_OF_MEMORY", ": the server has no room"),
                               ("INTERNAL_ERROR", ": the server cannot use its store"),
                               ("DRAINING", ": the server takes no more jobs"),
                               ("JOB_TOO_BIG", ": the body is larger than the max-job-size"),
                               ("BURIED 5", "\n")]:
            status, out, err = self.ask([b"USING default\r\n", error.encode() + b"\r\n"],
                                        "put", "x")
            self.assertEqual((status, out), (3, ""))
            self.assertTrue(err.startswith(f"carillon put: {error}{meaning}"), err)


class Wheels(unittest.TestCase):
    """trace and plan: no server, no folder, nothing but an answer."""

    def ask(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([cli.BINARY, *words], cwd=folder, stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=LIMIT_S, check=False,
                                  env={**os.environ, "CARILLON_SERVER": "127.0.0.1:1"})
            self.assertEqual(os.listdir(folder), [])
        for line in done.stdout.decode("ascii").splitlines():
            self.assertLessEqual(len(line), 80, line)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_stories_end_as_they_are_known_to(self):
        for words, fired in [([], "B at 5 s, A at 7 s, C at 13 s"),
                             (["--story", "a"], "B at 5 s, A at 7 s, C at 13 s"),
                             (["--story", "b"], "A at 02:30:00"),
                             (["--story", "b", "--at", "10:24:30"], "A at 12:54:30"),
                             (["--at", "10:24"], "B at 10:24:03, A at 10:24:05, C at 10:24:11"),
                             (["--story", "c", "--at", "10:24", "--delay", "7ms"],
                              "A at 10:24:00.007"),
                             (["--story", "c"], "A at 5 ms, B at 100 ms, C at 3 s, D at 10 s")]:
            status, out, err = self.ask("trace", *words)
            self.assertEqual((status, err), (0, ""))
            self.assertTrue(out.endswith(f"\nfired: {fired}\n"), out)

    def test_own_timers_on_every_wheel(self):
        for wheel, fired in [("hashed", "A at 3 s, B at 40 s"),
                             ("hierarchical", "A at 2.5 s, B at 40 s"),
                             ("kafka", "A at 2.5 s, B at 40 s"), ("linux", "A at 2.5 s, B at 40 s"),
                             ("clock", "A at 00:00:02.500, B at 00:00:40.000"),
                             ("hours", "A at 00:00:03, B at 00:00:40"),
                             ("coarse", "A at 2.56 s, B at 40.96 s"),
                             ("kernel", "A at 2.56 s, B at 40.96 s")]:
            status, out, err = self.ask("trace", "--wheel", wheel, "--delay", "2500ms", "--delay",
                                        "40s")
            self.assertEqual((status, err), (0, ""), wheel)
            self.assertTrue(out.endswith(f"\nfired: {fired}\n"), (wheel, out))

    def test_every_tick_is_drawn_if_asked(self):
        _, out, _ = self.ask("trace", "--story", "b", "--delay", "75s", "--step", "1s")
        self.assertEqual(len(re.findall(r"(?m)^00:0[01]:\d\d", out)), 76)

    def test_plan_answers_with_a_row_for_each_and_a_reason(self):
        status, out, err = self.ask("plan", "--max-delay", "1h", "--tick", "1s", "--pending",
                                    "1000000")
        self.assertEqual((status, err), (0, ""))
        for row in [r"hashed +4096 +1 s +244 +0 +30\.6 MiB", r"hierarchical +3 x 64 +1 s ",
                    r"coarse +4 x 64 +3 min 49 s ", r"pooled +3 x 256 +1 s ", r"heap +- +no tick "]:
            self.assertRegex(out, "(?m)^  " + row)
        self.assertIn("\nTake the hashed wheel, 4096 slots.\n", out)
        for words, best in [(["--max-delay", "30d", "--pending", "20"], "heap"),
                            (["--max-delay", "30d", "--pending", "1000"], "hierarchical wheel"),
                            (["--max-delay", "30d", "--pending", "1000000"], "pooled wheel"),
                            (["--max-delay", "30d", "--pending", "1000", "--slack", "6.4"],
                             "coarse wheel")]:
            self.assertIn(f"\nTake the {best}.\n", self.ask("plan", *words)[1])

    def test_plan_names_a_slack_that_it_takes(self):
        for load in [["1h", "1ms"], ["1h", "1s"], ["30d", "1s"], ["100s", "100ms"], ["7m", "1ms"]]:
            words = ["plan", "--max-delay", load[0], "--tick", load[1], "--pending", "1000000"]
            out = self.ask(*words)[1]
            percent = re.search(r"at\s+most\s+([0-9.]+)%", out)
            self.assertIsNotNone(percent, out)
            if load[0] == "1h":
                self.assertEqual(percent[1], "6.4")
            out = self.ask(*words, "--slack", percent[1])[1]
            # A ring of few slots is simpler still.
            self.assertRegex(out, r"\nTake the (coarse wheel|hashed wheel, \d+ slots)\.\n")
            if load[0] == "30d":
                self.assertIn("\nTake the coarse wheel.\n", out)

    def test_plan_says_when_the_pool_must_be_told_its_size(self):
        words = ["plan", "--max-delay", "36500d", "--pending"]
        out = " ".join(self.ask(*words, "1073741824")[1].split())
        self.assertIn("max_size of 1073741824 at least: unless told, it takes no more than "
                      "67108864.", out)
        self.assertNotIn("max_size", self.ask(*words, "67108864")[1])

    def test_schedule_next_prints_the_times_to_come_as_the_clocks_show_them(self):
        cron = ["schedule", "next", "30 2 * * *", "--time-zone", "Europe/Amsterdam", "-n", "3",
                "--after", "2026-03-28T00:00:00Z"]
        self.assertEqual(self.ask(*cron), (0, "2026-03-28T02:30:00.000+01:00\n"
                                              "2026-03-29T03:00:00.000+02:00\n"
                                              "2026-03-30T02:30:00.000+02:00\n", ""))
        answer = json.loads(run(*cron, "--json")[1])
        self.assertEqual(answer["spec"], "CRON_TZ=Europe/Amsterdam 30 2 * * *")
        self.assertEqual(answer["times"][1], {"due_at": "2026-03-29T01:00:00.000Z",
                                              "due_at_ms": 1774746000000,
                                              "shown": "2026-03-29T03:00:00.000+02:00"})
        # Words need no quotes where the shell leaves them alone.
        self.assertEqual(self.ask("schedule", "next", "every", "90m", "--after",
                                  "2026-01-01T00:00:00Z", "--count", "2"),
                         (0, "2026-01-01T01:30:00.000Z\n2026-01-01T03:00:00.000Z\n", ""))
        self.assertEqual(len(self.ask("schedule", "next", "@hourly")[1].splitlines()), 5)
        # The calendar ends in 2262.
        self.assertEqual(self.ask("schedule", "next", "@yearly", "--after",
                                  "2261-01-01T00:00:00Z"), (0, "2262-01-01T00:00:00.000Z\n", ""))

    def test_schedule_next_names_the_field_and_the_limit(self):
        for words, named in [
                (["61 * * * *"], "minute: 61 is beyond 59"), (["every", "1ms"], "1ms is below 1s"),
                (["0 0 30 2 *"], "there is no such day"), (["@daily", "-n", "0"], "--count: 0 is"),
                (["@daily", "--after", "noon"], "--after: \"noon\" is not a time"),
                (["@daily", "--time-zone", "Mars"], "time zone \"Mars\""),
                (["every 1h", "--time-zone", "UTC"], "--time-zone is for cron"),
                (["TZ=UTC @daily", "--time-zone", "UTC"], "names a zone already"), ([], "SPEC")]:
            status, out, err = self.ask("schedule", "next", *words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(named, " ".join(err.split()))

    def test_a_story_says_nothing_that_its_options_change(self):
        status, out, err = self.ask("trace", "--story", "a", "--at", "3")
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(out.splitlines()[0], "carillon trace, story a: a hashed wheel")
        self.assertRegex(self.ask("trace", "--help")[1], r"\[2s in\s+story a")

    def test_wrong_values_name_the_option_and_its_limits(self):
        load = ["plan", "--max-delay", "1h", "--pending", "5"]
        for words, named in [
                (["plan", "--pending", "5"], "--max-delay is required"),
                (["plan", "--foo"], "not expected: --foo"), (["plan", "extra"], "expected: extra"),
                (["delete", "--foo"], "not expected: --foo"),
                (["plan", "--max-delay", "1x", "--pending", "5"], "--max-delay: '1x' is not a dur"),
                (["plan", "--max-delay", "0", "--pending", "5"],
                 "--max-delay: 0 is out of range (1ms to 36500d)"),
                (["plan", "--max-delay", "1h", "--pending", "0"],
                 "--pending: 0 is out of range (1 to 1073741824)"),
                (["plan", "--max-delay", "1h", "--pending", "-1"], "--pending: '-1' is not a num"),
                (["plan", "--max-delay", "1h", "--pending", "1,000,000"],
                 "--pending: '1,000,000' is not a number: write 1000000"),
                (load + ["--tick", "2h"], "--tick: 2h is longer than --max-delay, 1h"),
                (load + ["--slack", "101%"], "--slack: 101% is out of range (0% to 100%)"),
                (load + ["--slack", "x"], "--slack: 'x' is not a percentage"),
                (["trace", "--story", "d"], "--story: 'd' is none of a b c"),
                (["trace", "--wheel", "x", "--delay", "1s"], "--wheel: 'x' is none of hashed "),
                (["trace", "--wheel", "kafka"], "--delay: at least one"),
                (["trace", "--delay", "-1s"], "--delay: '-1s' is not a duration"),
                (["trace"] + ["--delay", "1s"] * 27, "--delay: 27 timers, where 1 to 26 "),
                (["trace", "--slots", "4097"], "--slots: 4097 is out of range (1 to 4096)"),
                (["trace", "--story", "c", "--slots", "8"], "--slots: only for a hashed wheel"),
                (["trace", "--at", "25:00"], "--at: '25:00' is not a duration or a time of day"),
                (["trace", "--step", "1ms"], "--step: 1ms is out of range (1s to "),
                (["trace", "--delay", "10d"], "more than 10000"),
                (["trace", "--play"], "--play: standard output is not a terminal"),
                (["--patience", "1s", "trace"], "--server and --patience")]:
            status, out, err = self.ask(*words)
            self.assertEqual((status, out), (2, ""), words)
            self.assertIn(named, err, words)
            self.assertLessEqual(max(map(len, err.splitlines())), 80, err)

    def test_plan_keeps_its_columns_with_large_numbers(self):
        for load in [["1h", "1000"], ["36500d", "1073741824"], ["1ms", "1"], ["36500d", "100000"]]:
            out = self.ask("plan", "--max-delay", load[0], "--pending", load[1])[1]
            rows = out.split("\n\n")[1].splitlines()
            self.assertEqual(len(rows), 6, out)
            for title in ["slots", "late by", "timers in a slot", "cascades", "memory"]:
                column = rows[0].index(title)
                for row in rows[1:]:
                    self.assertEqual(row[column - 1], " ", out)
                    self.assertNotEqual(row[column], " ", out)


class Serve(unittest.TestCase):
    def serve(self, config, *words):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(config)
            file.flush()
            return run("serve", "--config", file.name, *words)

    def test_flags_override_the_file(self):
        status, out, _ = self.serve('partitions = 4\nhorizon = "2m"\n', "--partitions", "2",
                                    "--print-config")
        self.assertEqual(status, 0)
        self.assertIn("partitions = 2\n", out)
        self.assertIn('horizon = "2m"\n', out)

    def test_flags_can_be_taken_back(self):
        config = "memory = true\naccept-loss = true\n"
        status, out, _ = self.serve(config, "--memory=false", "--accept-loss=false",
                                    "--print-config")
        self.assertEqual(status, 0)
        self.assertIn("memory = false\n", out)
        self.assertIn("accept-loss = false\n", out)
        self.assertIn("memory = true\n", self.serve("", "--memory=true", "--print-config")[1])
        self.assertIn("memory = false\n",
                      self.serve("", "--memory", "--memory=false", "--print-config")[1])

    def test_a_host_or_a_port_alone_is_an_address(self):
        _, out, _ = run("serve", "--listen", "localhost", "--listen", ":7", "--print-config")
        self.assertIn('listen = ["localhost:11300", "127.0.0.1:7"]', out)

    def test_what_has_no_effect_is_said(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(folder + "/c.toml", "w", encoding="utf-8") as file:
                file.write('body-budget = "1MiB"\n')
            # It cannot listen there, so it ends by itself.
            status, _, err = run("serve", "--memory", "--horizon", "1h", "--max-tubes", "7",
                                 "--config", folder + "/c.toml", "--listen", "unix:" + folder)
        self.assertEqual(status, 3)
        self.assertIn("warning horizon has no effect with memory\n", err)
        self.assertIn("warning body-budget has no effect with memory\n", err)
        self.assertEqual(err.count("no effect"), 2, err)
        self.assertIn("listen: " + folder, err)

    def test_a_folder_in_use_is_said_once_and_the_count_of_its_partitions(self):
        with tempfile.TemporaryDirectory() as folder:
            words = ["serve", "--listen", "127.0.0.1:0", "--data", folder]
            with subprocess.Popen([cli.BINARY, *words], stderr=subprocess.PIPE, text=True) as first:
                line = first.stderr.readline()
                self.assertIn(f"jobs in {folder}: 0 near, 0 far; ready", line)
                status, _, err = run(*words)
                self.assertEqual(status, 3)
                self.assertRegex(err, rf"^\S+ error data folder {folder} is in use by another "
                                      r"process\n$")
                first.send_signal(signal.SIGTERM)
                self.assertEqual(first.wait(LIMIT_S), 0)
            status, _, err = run(*words, "--partitions", "2")
            self.assertEqual(status, 3)
            self.assertIn("has 1 partition, but the option partitions is 2", err)

    def test_printed_configuration_gives_itself(self):
        words = ["--listen", "unix:/tmp/a", "--listen", "[::1]:7", "--data", 'q"uo\\te',
                 "--max-unsent", "2KiB", "--accept-loss", "--print-config"]
        status, out, _ = run("serve", *words)
        self.assertEqual(status, 0)
        self.assertIn('listen = ["unix:/tmp/a", "[::1]:7"]', out)
        self.assertEqual(self.serve(out, "--print-config"), (0, out, ""))

    def test_bad_configuration_ends_with_2_and_names_it(self):
        for config, words, named in [("memroy = true\n", [], ":1: there is no option 'memroy'"),
                                     ("partitions = 0\n", [], "1 to 64"),
                                     ("", ["--partitions", "65"],
                                      "carillon serve: --partitions: 65 is out of range (1 to 64)"),
                                     ("listen = 5\n", [], ":1: listen: has to be an address"),
                                     ("", ["--listen", "0"], "--listen: address '0'"),
                                     ("", ["--listen", "127.1:7"], "--listen: address '127.1:7'"),
                                     ("", ["--memory=maybe"], "--memory: 'maybe' is neither"),
                                     ("", ["--horizon", "soon"], "'soon'"),
                                     ("", ["--memory", "--data", "x"], "memory and data"),
                                     ("", ["--memory", "--data", "carillon-data"],
                                      "memory and data"),
                                     ('data = "a\\u0000b"\n', [], ":1: data: has a NUL byte")]:
            status, out, err = self.serve(config, *words)
            self.assertEqual((status, out), (2, ""), (config, words))
            self.assertIn(named, err)
            self.assertTrue(err.startswith("carillon serve: "), err)
        for path in ["/nowhere/c.toml", "/tmp", ""]:
            status, out, err = run("serve", "--config", path)
            self.assertEqual((status, out), (2, ""), path)
            self.assertIn(f"'{path}' cannot be read", err)

    def test_printed_configuration_of_memory_gives_itself(self):
        status, out, _ = run("serve", "--memory", "--print-config")
        self.assertEqual(status, 0)
        self.assertEqual(self.serve(out, "--print-config"), (0, out, ""))

    def start_limited(self, setup, *words):
        """`serve` after `setup` in the shell; returns (exit status, standard error)."""
        done = subprocess.run(["bash", "-c", f'{setup}; exec "$@"', "-", cli.BINARY, "serve",
                               "--listen", "127.0.0.1:0", *words], capture_output=True,
                              timeout=LIMIT_S, check=False)
        return done.returncode, done.stderr.decode()

    def test_too_few_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            status, err = self.start_limited("ulimit -n 64", "--data", folder + "/jobs")
            self.assertEqual(status, 3)
            self.assertIn("limit of open files (ulimit -n) is 64, at least 256 are needed", err)
            self.assertFalse(os.path.exists(folder + "/jobs"))

    def test_a_folder_that_is_none_is_not_called_in_use(self):
        with tempfile.NamedTemporaryFile() as file:
            status, err = self.start_limited("true", "--data", file.name)
            self.assertEqual(status, 3)
            self.assertIn(file.name, err)
            self.assertNotIn("in use", err)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_a_folder_of_another_user_is_not_called_in_use(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            words = ["serve", "--listen", "127.0.0.1:0", "--data", folder]
            done = subprocess.run([cli.BINARY, *words], user=65534, capture_output=True,
                                  timeout=LIMIT_S, check=False)
            self.assertEqual(done.returncode, 3)
            self.assertIn("Permission denied", done.stderr.decode())
            self.assertNotIn("in use", done.stderr.decode())

    def test_signals_during_the_start_are_acted_upon_after_it(self):
        # They are there before the program is, held back by the mask that it inherits: it has to
        # let them in, once it can act upon them.
        for signals in [[signal.SIGTERM], [signal.SIGUSR1, signal.SIGTERM], [signal.SIGINT]]:
            with tempfile.TemporaryDirectory() as folder:
                def pend(signals=signals):
                    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
                    for number in signals:
                        os.kill(os.getpid(), number)

                done = subprocess.run([cli.BINARY, "serve", "--listen", "127.0.0.1:0", "--data",
                                       folder + "/jobs"], preexec_fn=pend, capture_output=True,
                                      timeout=LIMIT_S, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"listens on", done.stderr)
                self.assertIn(b"stopped", done.stderr)

    def test_a_start_that_fails_ends_with_3_and_says_why(self):
        status, _, err = run("serve", "--data", "/nowhere/at/all", "--listen", "127.0.0.1:0")
        self.assertEqual(status, 3)
        self.assertIn("/nowhere/at", err)

    def test_help_tells_every_option_with_its_default(self):
        status, out, _ = run("serve", "--help")
        self.assertEqual(status, 0)
        _, config, _ = run("serve", "--print-config")
        for line in config.splitlines():
            self.assertIn("--" + line.split(" = ")[0], out)

    def test_help_fits_a_terminal(self):
        verbs = ("serve put reserve ack release bury touch delete peek show change cancel search "
                 "clear kick pause resume stats ls top bench check backup restore completions "
                 "schedule trace plan version").split()
        for words in [[], *[[verb] for verb in verbs]]:
            status, out, _ = run(*words, "--help")
            self.assertEqual(status, 0)
            for line in out.splitlines():
                self.assertLessEqual(len(line), 80, line)

    def test_reference_page_tells_every_option_with_its_default(self):
        with open(os.path.join(ROOT, "docs/reference/config.md"), encoding="utf-8") as page:
            rows = dict(re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \|", page.read(), re.MULTILINE))
        # What is nothing by default cannot be printed as a value.
        rows = {name: default for name, default in rows.items() if default.strip()}
        _, config, _ = run("serve", "--print-config")
        printed = {}
        for line in config.splitlines():
            name, value = line.split(" = ")
            printed[name] = value.strip('[]"')
        self.assertEqual(rows, printed)

    def test_packaged_configuration_is_valid(self):
        status, out, err = run("serve", "--config", os.path.join(ROOT, "packaging/carillon.toml"),
                               "--print-config")
        self.assertEqual((status, err), (0, ""))
        self.assertIn('data = "/var/lib/carillon/jobs"\n', out)
        # What is commented out is the default.
        with open(os.path.join(ROOT, "packaging/carillon.toml"), encoding="utf-8") as file:
            commented = re.findall(r"^# ([a-z-]+ = .*)$", file.read(), re.MULTILINE)
        for line in commented:
            if not line.startswith(("listen", "http-tokens", "login-tokens")):
                self.assertIn(line + "\n", out)

    def test_version(self):
        for word in ["version", "--version"]:
            status, out, _ = run(word)
            self.assertEqual(status, 0)
            self.assertRegex(out, r"^carillon \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    cli.BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
