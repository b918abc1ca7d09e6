#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schedules over HTTP against the real server, with several partitions.

    schedules_test.py CARILLON
"""

import sys
import threading
import time
import unittest

from client import Server

BINARY = None
SCHEDULE = {"body": "x", "every_ms": 3600000}


class SchedulesTest(unittest.TestCase):
    def assert_problem(self, response, status, name, field=None):
        self.assertEqual((response.status, response.problem), (status, name), response)
        if field is not None:
            self.assertEqual(response.json.get("field"), field, response)


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


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
