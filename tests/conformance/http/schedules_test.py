#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules over HTTP against the real server, with several partitions.

    schedules_test.py CARILLON
"""

import sys
import threading
import time
import unittest
import urllib.parse

from client import Server

BINARY = None
SCHEDULE = {"body": "x", "every_ms": 3600000}


class SchedulesTest(unittest.TestCase):
    def assert_problem(self, response, status, name, field=None):
        self.assertEqual((response.status, response.problem), (status, name), response)
        if field is not None:
            self.assertEqual(response.json.get("field"), field, response)


class InstanceTest(SchedulesTest):
    def test_an_instance_of_a_schedule_says_of_which_period_it_is(self):
        with Server(BINARY) as server:
            path = "/api/v1/schedules/t"
            self.assertEqual(server.ask("PUT", path, {
                "tube": "t", "body": "x", "cron": "* * * * * *"}).status, 201)
            [job] = server.reserve("t", wait_ms=5000)
            self.assertEqual(server.ask("DELETE", path).status, 204)
            self.assertEqual(job["schedule"], "t")
            self.assertRegex(job["due_at"], r"^[0-9T:-]+\.000Z$")
            shown = server.get(f"/api/v1/jobs/{job['id']}").json
            self.assertEqual((shown["state"], shown["due_at"]), ("reserved", job["due_at"]))
            self.assertEqual((shown["period_at"], job["period_at"]), (job["due_at"], job["due_at"]))
            # Its period is not the date that it waits for afterwards.
            self.assertEqual(server.ask("POST", f"/api/v1/jobs/{job['id']}/release", {
                "receipt": job["receipt"], "delay_ms": 3_600_000}).status, 200)
            shown = server.get(f"/api/v1/jobs/{job['id']}").json
            self.assertEqual((shown["state"], shown["period_at"]), ("delayed", job["period_at"]))
            self.assertGreater(shown["due_at"], job["due_at"])


class NameTest(SchedulesTest):
    """A name is unique in the server, though a schedule lies in the partition of its tube."""

    TUBES = [f"t{i}" for i in range(8)]  # Of all the partitions.

    def race(self, server, names, tubes):
        """All at once; returns {name: [(tube, status)]}, status None: no answer."""
        results = {name: [] for name in names}
        start = threading.Barrier(len(tubes))

        def run(tube):
            start.wait()
            for name in names:
                try:
                    response = server.ask("PUT", f"/api/v1/schedules/{name}",
                                          {**SCHEDULE, "tube": tube})
                    results[name].append((tube, response.status))
                except Exception:  # http.client has many names for a connection that ended.
                    results[name].append((tube, None))

        threads = [threading.Thread(target=run, args=(tube,)) for tube in tubes]
        for thread in threads:
            thread.start()
        return results, threads

    def listed(self, server):
        return [(s["name"], s["tube"]) for s in
                server.get("/api/v1/schedules?limit=1000").json["schedules"]]

    def test_one_of_many_at_once_gets_the_name(self):
        names = [f"n{i}" for i in range(60)]
        with Server(BINARY, "--partitions", "4") as server:
            results, threads = self.race(server, names, self.TUBES)
            for thread in threads:
                thread.join()
            listed = self.listed(server)
        self.assertEqual([name for name, _ in listed], sorted(names))
        for name, answers in results.items():
            statuses = sorted(status for _, status in answers)
            self.assertEqual(statuses, [201] + [422] * (len(self.TUBES) - 1), name)
            self.assertIn((dict(listed)[name], 201), answers)

    def test_a_kill_between_the_steps_leaves_one_or_none(self):
        with Server(BINARY, "--partitions", "4", durable=True) as server:
            promised = {}
            for turn in range(6):
                names = [f"k{turn}-{i}" for i in range(200)]
                results, threads = self.race(server, names, self.TUBES[:4])
                time.sleep(0.05 + 0.07 * turn)
                server.process.kill()
                for thread in threads:
                    thread.join()
                server.process.wait()
                server.start()
                for name, answers in results.items():
                    for tube, status in answers:
                        if status == 201:
                            promised[name] = tube
            listed = self.listed(server)
            self.assertEqual(len(listed), len({name for name, _ in listed}), "two of one name")
            self.assertGreater(len(promised), 10)
            self.assertEqual({name: dict(listed).get(name) for name in promised}, promised)
            # None is left behind in a state that keeps its name from others.
            free = next(name for turn in range(6) for i in range(200)
                        if (name := f"k{turn}-{i}") not in dict(listed))
            response = server.ask("PUT", f"/api/v1/schedules/{free}",
                                  {**SCHEDULE, "tube": self.TUBES[5]})
            self.assertEqual(response.status, 201)

    def test_a_name_is_free_again_when_its_schedule_is_deleted(self):
        with Server(BINARY, "--partitions", "4") as server:
            for tube in self.TUBES:
                put = server.ask("PUT", "/api/v1/schedules/moved", {**SCHEDULE, "tube": tube})
                self.assertEqual(put.status, 201)
                for other in self.TUBES:
                    again = server.ask("PUT", "/api/v1/schedules/moved",
                                       {**SCHEDULE, "tube": other})
                    if other == tube:
                        self.assertEqual(again.status, 200)
                    else:
                        self.assert_problem(again, 422, "invalid-field", "tube")
                self.assertEqual(server.ask("DELETE", "/api/v1/schedules/moved").status, 204)


class MistakeTest(SchedulesTest):
    def test_what_is_wrong_with_when_it_is_due_is_said_of_its_own_member(self):
        with Server(BINARY) as server:
            for when, field, limit in (
                    ({"cron": "0 0 * * *", "time_zone": "Mars/Base"}, "time_zone", "IANA"),
                    ({"cron": "0 0 * * 9", "time_zone": "Europe/Paris"}, "cron", "recurring-jobs"),
                    ({"cron": "0 0 * * 9", "time_zone": "Mars/Base"}, "cron", "recurring-jobs"),
                    ({"every_ms": 1000, "start_at": "2262-04-12T00:00:00Z"}, "start_at", "2262-04"),
                    ({"every_ms": 1000, "start_at": "9999-01-01T00:00:00Z"}, "start_at", "2262-04"),
                    ({"every_ms": 1}, "every_ms", "1000 to"),
                    ({"every_ms": 2 ** 64}, "every_ms", "1000 to"),
                    ({"spec": "never"}, "spec", "recurring-jobs")):
                response = server.ask("PUT", "/api/v1/schedules/s",
                                      {"tube": "t", "body": "x", **when})
                self.assert_problem(response, 422, "invalid-field", field)
                self.assertIn(limit, response.json["limit"], response)
            last = server.ask("PUT", "/api/v1/schedules/s", {
                "tube": "t", "body": "x", "every_ms": 1000, "start_at": "2262-04-11T23:47:16.854Z"})
            self.assertEqual(last.status, 201, last)

    def test_names_and_keys_have_no_control_characters(self):
        with Server(BINARY) as server:
            for name in ("a\x1f", "a\x7f", "a\x85", "\x9b31m"):
                quoted = urllib.parse.quote(name, safe="")
                self.assert_problem(server.ask("PUT", "/api/v1/schedules/" + quoted, SCHEDULE),
                                    422, "invalid-field", "name")
                self.assert_problem(server.post("/api/v1/tubes/t/jobs", {"body": "x", "key": name}),
                                    422, "invalid-field", "key")
                self.assert_problem(server.get("/api/v1/tubes/t/keys/" + quoted),
                                    422, "invalid-field", "key")

    def test_a_number_beyond_64_bits_spoils_its_own_job_and_no_other_of_a_batch(self):
        with Server(BINARY) as server:
            jobs = [{"body": "1"}, {"body": "2", "delay_ms": 2 ** 64}, {"body": "3"}]
            results = server.post("/api/v1/tubes/t/jobs:batch", jobs).json["results"]
            self.assertEqual([result["status"] for result in results], [201, 422, 201])
            self.assertEqual(results[1]["problem"]["field"], "jobs[1].delay_ms")


class PageTest(SchedulesTest):
    def test_schedules_and_tubes_page_with_a_cursor_as_jobs_do(self):
        with Server(BINARY, "--partitions", "3") as server:
            names = sorted([f"name {i} ü/+&" for i in range(7)])
            for i, name in enumerate(names):
                path = "/api/v1/schedules/" + urllib.parse.quote(name, safe="")
                server.ask("PUT", path, {**SCHEDULE, "tube": f"t{i}"})
                server.put(tube=f"t{i}")
            for path, member, expected in (
                    ("schedules", "schedules", names),
                    ("tubes", "tubes", ["default"] + [f"t{i}" for i in range(7)]),
                    ("jobs?state=ready", "jobs", None)):
                for limit in (1, 2, 3, 7, 100):
                    seen = []
                    cursor = ""
                    while True:
                        joint = "&" if "?" in path else "?"
                        page = server.get(f"/api/v1/{path}{joint}limit={limit}{cursor}").json
                        self.assertLessEqual(len(page[member]), limit)
                        seen += [each.get("name", each.get("id")) for each in page[member]]
                        if "next" not in page:
                            break
                        cursor = "&cursor=" + urllib.parse.quote(page["next"], safe="")
                    self.assertEqual(len(seen), len(set(seen)))
                    if expected is not None:
                        self.assertEqual(seen, expected)
                    else:
                        self.assertEqual(len(seen), 7)
                self.assert_problem(
                    server.get(f"/api/v1/{path}{joint}cursor=%00"), 422, "invalid-field",
                    "cursor")
            for path in ("schedules", "tubes"):
                self.assertEqual(server.get(f"/api/v1/{path}?after=a").status, 422)


class DrainTest(SchedulesTest):
    """In drain mode nothing comes into the tubes any more, schedules included."""

    def test_schedules_put_nothing_and_are_missed(self):
        for partitions in ("1", "3"):
            with Server(BINARY, "--partitions", partitions, durable=True) as server:
                for tube, missed in (("a", "once"), ("b", "skip")):
                    server.ask("PUT", f"/api/v1/schedules/{tube}", {
                        "tube": tube, "body": "x", "every_ms": 1000, "missed": missed})
                deadline = time.monotonic() + 20
                while self.runs(server, "a") == 0 or self.runs(server, "b") == 0:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                server.put(tube="c", delay_ms=2500)
                server.signal("USR1")
                server.wait_for_log("drain mode")
                time.sleep(0.3)
                runs = {name: self.runs(server, name) for name in "ab"}
                self.assert_problem(server.post("/api/v1/schedules/a/run"), 503, "draining")
                while server.reserve("a", "b", "c"):
                    pass
                # What was put before falls due and is worked on; the tubes become empty for good.
                self.assertEqual(len(server.reserve("c", wait_ms=5000)), 1)
                self.assertEqual({name: self.runs(server, name) for name in "ab"}, runs)
                self.assertEqual(server.reserve("a", "b", "c"), [])
                server.process.terminate()
                self.assertEqual(server.process.wait(20), 0)
                server.start()
                while self.runs(server, "a") == runs["a"]:
                    self.assertLess(time.monotonic(), deadline + 30)
                    time.sleep(0.02)
                schedule = server.get("/api/v1/schedules/a").json
                self.assertGreater(schedule["missed_periods"], 0)

    def runs(self, server, name):
        return server.get(f"/api/v1/schedules/{name}").json["runs"]


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
