#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of schedule_kill_loop.py sees what a server that lies does."""

import time
import types
import unittest

import schedule_kill_loop
from schedule_kill_loop import Loop, Record, Schedule

BEGIN = 1_700_000_000_000


def stamp(milliseconds):
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03}Z"


class RecordTest(unittest.TestCase):
    def setUp(self):
        self.schedule = Schedule("s", "every", "t", overlap="allow")
        self.alone = Schedule("alone", "every", "t", overlap="skip")
        self.record = Record([self.schedule, self.alone])

    def deliver(self, job_id, period, name="s"):
        self.record.delivered({"id": str(job_id), "due_at": stamp(period), "schedule": name})

    def fault(self, text):
        self.assertEqual(len(self.record.faults), 1, self.record.faults)
        self.assertIn(text, self.record.faults[0])

    def test_each_period_once_and_again_if_it_was_not_deleted(self):
        for job_id, period in ((1, BEGIN), (2, BEGIN + 1000), (1, BEGIN)):
            self.deliver(job_id, period)
        self.assertEqual(self.record.faults, [])

    def test_two_of_a_period(self):
        self.deliver(1, BEGIN)
        self.deliver(2, BEGIN)
        self.fault("both of")

    def test_what_is_no_period(self):
        self.deliver(1, BEGIN + 1)
        self.fault("no period")

    def test_what_is_early(self):
        self.deliver(1, (int(time.time()) + 100) * 1000)
        self.fault("early")

    def test_what_was_deleted_and_comes_back(self):
        self.deliver(1, BEGIN)
        self.record.gone.add(1)
        self.deliver(1, BEGIN)
        self.fault("came back")

    def test_what_overlaps(self):
        self.deliver(1, BEGIN, "alone")
        self.deliver(2, BEGIN + 1000, "alone")
        self.fault("1 lives, and 2 came")

    def test_what_lives_again_after_the_next(self):
        self.deliver(1, BEGIN, "alone")
        self.record.ended.add(1)
        self.deliver(2, BEGIN + 1000, "alone")
        self.deliver(1, BEGIN, "alone")
        self.fault("so did a later one")

    def test_what_comes_of_a_schedule_that_was_deleted(self):
        self.schedule.deleted_at = BEGIN + 500
        self.deliver(1, BEGIN + 1000)
        self.fault("after it was deleted")


class AccountTest(unittest.TestCase):
    def judge(self, seen, down=(), **final):
        """Whether the periods from BEGIN to ten seconds later are accounted for."""
        results = []
        loop = types.SimpleNamespace(
            down=list(down), pulse=types.SimpleNamespace(longest=0.0),
            check=lambda condition, what: results.append(bool(condition)))
        loop.excused = lambda schedule, period: Loop.excused(loop, schedule, period)
        schedule = Schedule("s", "every", "t")
        schedule.first_due = BEGIN
        schedule.ids = {BEGIN + 1000 * number: number for number in seen}
        Loop.judge_one(loop, schedule, {
            "due_at": stamp(BEGIN + 10_000), "last_due_at": stamp(BEGIN + 9000), "runs": len(seen),
            "missed_periods": 0, "skipped_periods": 0, **final})
        return results == [True]

    def test_all_of_them(self):
        self.assertTrue(self.judge(range(10)))

    def test_one_that_is_lost_and_not_counted(self):
        self.assertFalse(self.judge([0, 1, 2, 3, 4, 6, 7, 8, 9]))

    def test_one_that_is_missed_while_the_server_ran(self):
        seen = [0, 1, 2, 3, 4, 6, 7, 8, 9]
        self.assertFalse(self.judge(seen, missed_periods=1))
        down = [(BEGIN + 5010, BEGIN + 6010)]
        self.assertTrue(self.judge(seen, down, missed_periods=1))
        self.assertFalse(self.judge(seen, [(BEGIN + 7000, BEGIN + 8000)], missed_periods=1))

    def test_more_than_came(self):
        self.assertFalse(self.judge(range(10), runs=11))


if __name__ == "__main__":
    assert schedule_kill_loop.STEPS["every"] == 1000
    unittest.main()
