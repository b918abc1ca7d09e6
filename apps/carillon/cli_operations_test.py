# SPDX-License-Identifier: Apache-2.0
"""The verbs of those who run a server: json, tubes, check, backup, restore, logs,
reload.

    python3 cli_operations_test.py build/gcc-release/bin/carillon
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import cli
from cli_server import Server

LIMIT_S = cli.LIMIT_S


class Tubes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.server = cls.stack.enter_context(Server())

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def verb(self, *words, stdin=b""):
        status, out, err = self.server.verb(*words, stdin=stdin)
        self.assertEqual((status, err if words[0] != "reserve" else ""), (0, ""), words)
        return out

    def json(self, *words, stdin=b""):
        return json.loads(self.verb(*words, "--json", stdin=stdin))

    def test_json_has_its_members(self):
        job = self.json("put", "--tube", "members", "x")
        self.assertEqual(list(job), ["id"])
        tubes = {tube["tube"]: tube for tube in self.json("ls")["tubes"]}
        self.assertEqual(tubes["members"], {
            "tube": "members", "ready": 1, "delayed": 0, "reserved": 0, "buried": 0,
            "watching": 0, "waiting": 0, "pause_left_s": 0})
        stats = self.json("stats", "--job", str(job["id"]))
        self.assertEqual((stats["id"], stats["state"], stats["pri"]),
                         (str(job["id"]), "ready", 1024))
        self.assertIs(self.json("stats")["draining"], False)
        self.assertEqual(self.json("delete", str(job["id"])), {"deleted": [job["id"]],
                                                               "missing": []})
        status, out, _ = self.server.verb("delete", "--json", "999999")
        self.assertEqual((status, json.loads(out)), (1, {"deleted": [], "missing": [999999]}))

    def test_json_is_valid_whatever_the_bytes(self):
        for body, name, text in [
                (b"\xff\xfe", "body_base64", "//4="), (b"\xed\xa0\x80", "body_base64", "7aCA"),
                (b"\xc0\x80", "body_base64", "wIA="), (b"\xe2\x82", "body_base64", "4oI="),
                ("gr\u00fcn \U0001f514".encode(), "body", "gr\u00fcn \U0001f514"),
                (b"\x00\x1f\x7f\"\\", "body", "\x00\x1f\x7f\"\\"), (b"", "body", "")]:
            job = self.json("put", "--tube", "bytes", stdin=body)["id"]
            self.assertEqual(self.json("peek", str(job)),
                             {"id": job, "size": len(body), name: text})
            self.verb("delete", str(job))

    def test_bury_and_release_behind_a_reserve(self):
        job = self.json("put", "--tube", "ends", "--priority", "7", "x")["id"]
        self.verb("reserve", "--tube", "ends", "--bury")
        stats = self.json("stats", "--job", str(job))
        self.assertEqual((stats["state"], stats["pri"]), ("buried", 7))
        self.assertEqual(self.verb("kick", "--tube", "ends"), "1\n")
        self.verb("reserve", "--tube", "ends", "--release", "90500ms")
        stats = self.json("stats", "--job", str(job))
        self.assertEqual((stats["state"], stats["pri"], stats["delay"]), ("delayed", 7, 91))
        for words in [["--bury", "--delete"], ["--release", "1s", "--bury"],
                      ["--release", "x"]]:
            self.assertEqual(self.server.verb("reserve", *words)[0], 2)

    def test_kick_of_a_tube_and_of_jobs(self):
        jobs = [self.json("put", "--tube", "kick", "--delay", "1h", "x")["id"] for _ in range(4)]
        self.assertEqual(self.json("kick", "--tube", "kick", "--count", "2"),
                         {"kicked": 2, "missing": []})
        self.assertEqual(self.verb("kick", str(jobs[3])), "1\n")
        status, out, err = self.server.verb("kick", "--json", str(jobs[0]), str(jobs[2]), "999999")
        self.assertEqual(status, 1)
        self.assertEqual(json.loads(out), {"kicked": 1, "missing": [jobs[0], 999999]})
        self.assertIn(f"{jobs[0]} 999999", err)
        for words in [["--count", "x"], ["--count", "-1"], ["1", "--tube", "a"], ["x"]]:
            self.assertEqual(self.server.verb("kick", *words)[0], 2, words)

    def test_pause_and_resume(self):
        self.json("put", "--tube", "pause", "x")
        self.assertEqual(self.json("pause", "--tube", "pause", "--for", "59500ms"),
                         {"tube": "pause", "pause_s": 60})
        self.assertRegex(self.verb("ls"), r"(?m)  pause \(paused, (60|59|5\d) s left\)$")
        self.assertEqual(self.server.verb("reserve", "--tube", "pause")[0], 1)
        self.assertEqual(self.verb("resume", "--tube", "pause"), "")
        self.assertEqual(self.verb("reserve", "--tube", "pause", "--delete"), "x\n")
        status, _, err = self.server.verb("pause", "--tube", "none", "--for", "1s")
        self.assertEqual((status, err), (1, "carillon pause: NOT_FOUND: there is no tube none\n"))
        self.assertEqual(self.server.verb("pause", "--tube", "a")[0], 2)


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carillon-folders-")
        self.addCleanup(self.folder.cleanup)
        self.data = self.path("data")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def fill(self, *words):
        with Server(*words, data=self.data) as server:
            for tube in ["mail", "report"]:
                for delay in ["0", "30s", "1h", "2d"]:
                    self.assertEqual(server.verb("put", "-t", tube, "-d", delay, "body")[0], 0)
            server.verb("reserve", "-t", "mail", "--bury")

    def report(self, folder, status=0):
        done = cli.run("check", folder, "--json")
        self.assertEqual(done[0], status, done)
        return json.loads(done[1])

    def contents(self, folder):
        found = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = file.read()
        return found

    def test_check_counts_and_changes_nothing(self):
        for words in [[], ["--partitions", "3"]]:
            self.fill(*words)
            before = self.contents(self.data)
            report = self.report(self.data)
            self.assertEqual(self.contents(self.data), before)
            counts = {name: report[name] for name in ["jobs", "ready", "delayed", "buried", "far",
                                                      "body_bytes", "faults_found"]}
            self.assertEqual(counts, {"jobs": 8, "ready": 1, "delayed": 6, "buried": 1, "far": 4,
                                      "body_bytes": 32, "faults_found": 0})
            self.assertEqual(report["partitions"], 3 if words else 1)
            self.assertEqual({tube["tube"] for tube in report["tubes"]}, {"mail", "report"})
            status, out, _ = cli.run("check", self.data)
            self.assertEqual(status, 0)
            self.assertRegex(out, r"(?m)^ +0 +3 +1 +2  \d{4}-\d\d-\d\dT[\d:.]+Z  mail$")
            self.assertRegex(out, r"(?m)^sound: 8 jobs, 32 bytes of bodies$")
            self.data = self.path("data-3")

    def test_check_needs_no_right_to_write(self):
        self.fill()
        os.chmod(self.folder.name, 0o755)
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        done = subprocess.run([cli.BINARY, "check", self.data, "--json"], user=65534,
                              capture_output=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["sound"])

    def test_a_folder_in_use_is_not_read(self):
        with Server(data=self.data) as server:
            server.verb("put", "x")
            for words in [["check", self.data], ["backup", "--data", self.data, self.path("b")]]:
                status, out, err = cli.run(*words)
                self.assertEqual((status, out), (3, ""), words)
                self.assertIn("is in use by a server", err)
            self.assertIn("backup-folder in its configuration, and send it SIGUSR2", err)
            self.assertFalse(os.path.exists(self.path("b")))

    def test_what_is_not_sound_ends_with_4_and_is_named(self):
        self.fill()
        mark = os.path.join(self.data, "ACKNOWLEDGED")
        with open(mark, "rb") as file:
            value = bytearray(file.read())
        value[8] ^= 0x80
        value[32] ^= 0x80
        with open(mark, "wb") as file:
            file.write(value)
        report = self.report(self.data, status=4)
        self.assertFalse(report["sound"])
        self.assertEqual(report["faults_found"], 1)
        self.assertEqual(report["faults"][0]["place"], "ACKNOWLEDGED")
        status, out, err = cli.run("check", self.data)
        self.assertEqual(status, 4)
        self.assertIn("fault: ACKNOWLEDGED: write ", out)
        self.assertIn("NOT SOUND: 1 fault\n", out)
        self.assertIn("is not sound: 1 fault", err)
        # Neither is a backup of it.
        status, _, err = cli.run("backup", "--data", self.data, self.path("backup"))
        self.assertEqual(status, 4)
        self.assertIn("the backup", err)
        status, _, err = cli.run("restore", self.path("backup"), "--data", self.path("new"))
        self.assertEqual(status, 4)
        self.assertFalse(os.path.exists(self.path("new")))

    def test_a_damaged_table_file_is_not_served_and_what_to_do_is_said(self):
        self.fill()
        with Server(data=self.data) as server:  # What was in the log is in files now.
            server.verb("put", "x")
        for name in os.listdir(self.data):
            if name.endswith(".sst"):
                with open(os.path.join(self.data, name), "r+b") as file:
                    block = file.read(200)
                    file.seek(0)
                    file.write(bytes(byte ^ 0x55 for byte in block))
        before = self.contents(self.data)
        for words in [[], ["--accept-loss"]]:  # It is for what is missing, not for this.
            done = cli.run("serve", "--data", self.data, "--listen", "127.0.0.1:0",
                           "--http-listen", "none", *words)
            self.assertEqual(done[0], 3, done)
            self.assertIn("Corruption", done[2])
            self.assertIn(f"`carillon check {self.data}` names every fault, then restore a backup",
                          done[2])
        self.assertFalse(self.report(self.data, status=4)["sound"])
        self.assertEqual({name: before[name] for name in before if name.endswith(".sst")},
                         {name: found for name, found in self.contents(self.data).items()
                          if name.endswith(".sst")})

    def test_backup_restore_serve(self):
        self.fill()
        before = self.contents(self.data)
        status, out, err = cli.run("backup", "--data", self.data, self.path("b"), "--json")
        self.assertEqual((status, err), (0, ""))
        made = json.loads(out)
        self.assertEqual(list(made), ["backup", "created", "files", "bytes", "jobs"])
        self.assertEqual((made["backup"], made["jobs"]), (self.path("b"), 8))
        self.assertEqual(self.contents(self.data), before)
        self.assertTrue(self.report(self.path("b"))["backup"])

        status, out, err = cli.run("restore", self.path("b"), "--data", self.path("new"))
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(out, r"^restored .*/new: \d+ files, .*; sound: 8 jobs\n$")
        with Server(data=self.path("new")) as server:
            self.assertEqual(server.verb("peek", "1")[1], "body\n")
            self.assertEqual(server.verb("stats", "--job", "1")[0], 0)
            self.assertGreater(int(server.verb("put", "x")[1]), 2**32)

    def test_nothing_is_overwritten(self):
        self.fill()
        self.assertEqual(cli.run("backup", "--data", self.data, self.path("b"))[0], 0)
        before = self.contents(self.path("b")), self.contents(self.data)
        for words, status, named in [
                (["backup", "--data", self.data, self.path("b")], 2, "exists already"),
                (["backup", "--data", self.path("none"), self.path("c")], 1, "none"),
                (["backup", "--data", self.path("b"), self.path("c")], 2, "no data folder"),
                (["backup", "--data", self.data, self.path("no/folder")], 1, "No such file"),
                (["restore", self.path("b"), "--data", self.data], 2, "is not empty"),
                (["restore", self.data, "--data", self.path("c")], 1, "is no backup"),
                (["restore", self.path("none"), "--data", self.path("c")], 1, "is no backup"),
                (["check", self.path("none")], 1, "No such file"),
                (["check", self.folder.name], 1, "there is no database"),
                (["check"], 2, "FOLDER")]:
            done = cli.run(*words)
            self.assertEqual(done[:2], (status, ""), done)
            self.assertIn(named, done[2])
            self.assertFalse(os.path.exists(self.path("c")))
        self.assertEqual((self.contents(self.path("b")), self.contents(self.data)), before)
        status, _, err = cli.run("serve", "--data", self.path("b"), "--listen", "127.0.0.1:0")
        self.assertEqual(status, 3)
        self.assertIn("is a backup", err)


class Backups(unittest.TestCase):
    def test_a_signal_makes_a_backup(self):
        with tempfile.TemporaryDirectory(prefix="carillon-backups-") as folder:
            data, backups = os.path.join(folder, "data"), os.path.join(folder, "backups")
            with Server("--backup-folder", backups, "--log-format", "json", data=data) as server:
                server.verb("put", "x")
                server.process.send_signal(signal.SIGUSR2)
                made = json.loads(server.until('"backup"'))
                self.assertEqual(os.path.dirname(made["backup"]), backups)
                self.assertRegex(os.path.basename(made["backup"]), r"^\d{8}T\d{6}Z$")
                server.verb("put", "x")
            self.assertEqual(json.loads(cli.run("check", made["backup"], "--json")[1])["jobs"],
                             1)

    def test_without_a_folder_for_them_none_is_made(self):
        with Server("--log-format", "json") as server:
            server.process.send_signal(signal.SIGUSR2)
            self.assertIn("nothing to back up", server.until("backup_failed"))


class Operations(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carillon-operations-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def configure(self, text):
        with open(self.path("config.toml"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path("config.toml")

    def reload(self, server, text):
        """Returns the entries of the log, by event."""
        self.configure(text)
        server.process.send_signal(signal.SIGHUP)
        entries = []
        while not entries or not entries[-1]["event"].startswith("reload"):
            entries.append(json.loads(server.process.stderr.readline()))
        return entries

    def test_log_of_json_has_its_members(self):
        with Server("--log-format", "json") as server:
            ready = json.loads(server.log[-1])
        entries = [ready] + [json.loads(line) for line in server.log[-1].splitlines()]
        self.assertEqual([entry["event"] for entry in entries], ["ready", "stopping", "stopped"])
        for entry in entries:
            self.assertEqual(list(entry)[:4], ["time", "level", "event", "message"])
            self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(entry["level"], "info")
        self.assertEqual({*ready} - {"time", "level", "event", "message"},
                         {"version", "listen", "data", "near", "far", "took_ms"})
        self.assertEqual(ready["listen"], server.address)

    def test_log_of_the_journal_has_levels(self):
        with Server("--log-format", "journal") as server:
            self.assertRegex(server.log[-1], "^<6>carillon .* listens on ")

    def test_reload_changes_what_can_change_and_names_the_rest(self):
        config = self.configure('max-job-size = 10\n')
        with Server("--config", config, "--log-format", "json") as server:
            self.assertEqual(server.verb("put", "12345678901")[0], 3)
            entries = self.reload(server, 'max-job-size = 11\nmax-tubes = 7\n'
                                          'drain-timeout = "3s"\n')
            changes = {entry["option"]: (entry["event"], entry["before"], entry["after"])
                       for entry in entries[:-1]}
            self.assertEqual(changes, {
                "max-job-size": ("option_changed", "10", "11"),
                "drain-timeout": ("option_changed", "10s", "3s"),
                "max-tubes": ("needs_restart", "100000", "7")})
            self.assertEqual(entries[-1]["changed"], 2)
            self.assertEqual(server.verb("put", "12345678901")[0], 0)
            # Once more: nothing has changed, and the rest is still to come.
            entries = self.reload(server, 'max-job-size = 11\nmax-tubes = 7\n'
                                          'drain-timeout = "3s"\n')
            self.assertEqual([entry["event"] for entry in entries], ["needs_restart", "reload"])

    def test_reload_of_what_is_wrong_changes_nothing(self):
        config = self.configure('max-job-size = 10\n')
        with Server("--config", config, "--log-format", "json") as server:
            for text in ["max-job-size = 11\nbogus = 1\n", "max-job-size = -1\n", "x", "a = [\n"]:
                entries = self.reload(server, text)
                self.assertEqual([entry["event"] for entry in entries], ["reload_failed"])
                self.assertIn("config.toml", entries[0]["message"])
                self.assertEqual(server.verb("put", "12345678901")[0], 3)
            os.unlink(config)
            server.process.send_signal(signal.SIGHUP)
            self.assertIn("cannot be read", server.until("reload_failed"))

    def test_flags_go_before_the_file_in_a_reload_too(self):
        config = self.configure("")
        with Server("--config", config, "--log-format", "json", "--max-job-size", "10") as server:
            self.assertEqual([entry["event"]
                              for entry in self.reload(server, "max-job-size = 11\n")], ["reload"])

    def test_reload_changes_the_log(self):
        config = self.configure("")
        with Server("--config", config) as server:
            self.configure('log-level = "warning"\n')
            server.process.send_signal(signal.SIGHUP)
            server.until("log-level was info and is warning")
        self.assertEqual(server.log[-1], "")  # Neither "reload" nor "stopped".

    def test_systemd_is_told(self):
        for name in [self.path("notify"), "\0carillon-test-" + str(os.getpid())]:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.settimeout(LIMIT_S)
                manager.bind(name)
                with Server(environment={"NOTIFY_SOCKET": name.replace("\0", "@")}) as server:
                    self.assertEqual(manager.recv(100), b"READY=1")
                    server.process.send_signal(signal.SIGTERM)
                    self.assertEqual(manager.recv(100), b"STOPPING=1")

    def test_a_signal_at_the_very_end_does_not_make_a_clean_stop_a_kill(self):
        for _ in range(10):
            with Server() as server:
                server.process.send_signal(signal.SIGTERM)
                while server.process.poll() is None:
                    server.process.send_signal(signal.SIGHUP)
                    time.sleep(0.002)  # Each is a line of the log, which nobody reads here.
                self.assertEqual(server.process.returncode, 0)


if __name__ == "__main__":
    cli.BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
