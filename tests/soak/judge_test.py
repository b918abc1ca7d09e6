#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The judges of the soak see what a server that lies, or grows, does."""

import time
import unittest

import paths  # pylint: disable=unused-import
import samples
from beanstalk import now
from ledger import Ledger


class LedgerTest(unittest.TestCase):
    def setUp(self):
        self.ledger = Ledger()

    def put(self, **options):
        entry = self.ledger.put("t", **options)
        self.ledger.acknowledged(entry, 7)
        return entry

    def take(self, entry, **options):
        return self.ledger.took(f"{entry.token}:padding", **options)

    def faults(self):
        return dict(self.ledger.faults)

    def test_an_honest_round_is_none(self):
        entry = self.put(delay=0.5)
        self.take(entry, at=now() + 0.6)
        self.ledger.gave_back(entry, at=now() + 0.6)
        self.take(entry, at=now() + 0.7)
        self.ledger.done(entry)
        self.assertEqual((self.faults(), self.ledger.live), ({}, {}))
        [late] = self.ledger.take_late()
        self.assertAlmostEqual(late, 0.1, delta=0.05)

    def test_a_job_that_is_early_by_delay_or_by_date(self):
        self.take(self.put(delay=0.5), at=now() + 0.49)
        self.take(self.put(due_wall=time.time() + 1))
        self.assertEqual(self.faults(), {"early": 2})

    def test_a_released_job_that_does_not_wait(self):
        entry = self.put()
        self.take(entry)
        self.ledger.gave_back(entry, 1.0)
        self.take(entry)
        self.assertEqual(self.faults(), {"early": 1})

    def test_two_workers_with_one_job(self):
        entry = self.put()
        self.take(entry)
        self.take(entry)
        self.assertEqual(self.faults(), {"two leases": 1})

    def test_a_deleted_job_that_comes_back(self):
        entry = self.put()
        self.take(entry)
        self.ledger.done(entry)
        self.take(entry)
        self.ledger.done(entry)
        self.assertEqual(self.faults(), {"came back": 1, "twice": 1})

    def test_a_lost_job_lives(self):
        entry = self.put()
        self.assertEqual(list(self.ledger.live), [entry.token])

    def test_two_instances_of_one_period(self):
        self.ledger.instance("s", 1000, 1)
        self.ledger.instance("s", 1000, 1)
        self.ledger.instance("s", 2000, 2)
        self.ledger.instance("s", 1000, 3)
        self.assertEqual(self.faults(), {"period twice": 1})


class FlatTest(unittest.TestCase):
    def judge(self, slack_ms=0.0, **growth):
        """What is not flat; `growth` is what a value has at the end, beside what it begins with."""
        failed = []
        taken = []
        begin = {"memory": 40 << 20, "descriptors": 60, "threads": 11, "disk": 20 << 20, "p50": 0.2,
                 "p99": 2.0, "seen_p99": 10.0, "kept_waiting": 2.0}
        for second in range(600):
            taken.append(samples.Sample(at=second, **{
                name: value + growth.get(name, 0) * second / 600 for name, value in begin.items()}))

        def check(condition, what):
            if not condition:
                failed.append(what.split(":")[0])
            return condition

        samples.judge(taken, 120, slack_ms, check)
        return failed

    def test_what_is_flat_passes(self):
        self.assertEqual(self.judge(), [])
        self.assertEqual(self.judge(memory=2 << 20, descriptors=4, disk=4 << 20, p99=2), [])

    def test_what_grows_is_seen(self):
        for name, growth, what in (("memory", 16 << 20, "memory"), ("threads", 4, "threads"),
                                   ("descriptors", 20, "file descriptors"),
                                   ("disk", 64 << 20, "folder, at most"),
                                   ("p50", 60, "lateness p50"), ("p99", 40, "lateness p99"),
                                   ("seen_p99", 80, "lateness p99 as workers see it")):
            self.assertEqual(self.judge(**{name: growth}), [what])

    def test_a_machine_that_is_busier_excuses_lateness_and_nothing_else(self):
        self.assertEqual(self.judge(seen_p99=80, kept_waiting=30), [])
        self.assertEqual(self.judge(seen_p99=80, slack_ms=100), [])
        self.assertEqual(self.judge(memory=16 << 20, kept_waiting=30), ["memory"])

    def test_too_few_samples_are_none(self):
        failed = []
        samples.judge([], 10, 0, lambda condition, what: condition or failed.append(what))
        self.assertEqual(len(failed), 1)

    def test_quantiles_lie_in_their_buckets(self):
        buckets = [(0.001, 50), (0.002, 90), (0.004, 100), (float("inf"), 100)]
        self.assertAlmostEqual(samples.quantile_of_buckets(buckets, 0.5), 1.0)
        self.assertAlmostEqual(samples.quantile_of_buckets(buckets, 0.95), 3.0)
        self.assertEqual(samples.quantile_of_buckets([(1.0, 0)], 0.99), 0.0)


if __name__ == "__main__":
    unittest.main()
