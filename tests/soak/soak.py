#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten minutes of everything at once: nothing is lost, nothing is early, and nothing grows.

A durable server with three partitions under a mixed load of some hundred jobs a second: beanstalk
and HTTP, near and far, webhooks, schedules, the dashboard, a scraper, connections that come and go.
A sample a second; then memory, file descriptors, threads, the folder and lateness in the last third
of the run are compared with those in the first, after a warm-up of a fifth (two minutes at most).
What may differ is in samples.py.
"""

import pathlib
import socket
import sys
import threading
import time

import load
import paths  # pylint: disable=unused-import
import samples
from beanstalk import PATIENCE, Pulse, Server, argument_parser, now, parse, run_test
from ledger import Ledger

# Small, so that the store goes round often: what it keeps is then flat within minutes.
ARGUMENTS = ["--partitions", "3", "--memtable-size", "4MiB", "--block-cache-size", "8MiB",
             "--max-log-size", "16MiB", "--body-budget", "256KiB", "--horizon", "1m",
             "--webhook-allow", "127.0.0.1", "--log-level", "warning"]


class SoakServer(Server):
    """With an HTTP port, too."""

    def __init__(self, program, folder, arguments):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.http = probe.getsockname()[1]
        listen = ["--http-listen", f"127.0.0.1:{self.http}"]
        super().__init__(program, folder, ARGUMENTS + listen + arguments)

    def proc(self):
        return pathlib.Path(f"/proc/{self.pid}")


class Soak:
    def __init__(self, args, folder, checks):
        self.args = args
        self.check = checks.that
        self.server = SoakServer(args.server, folder / "store", args.server_args.split())
        self.http = self.server.http
        self.ledger = Ledger()
        self.ending, self.ended = threading.Event(), threading.Event()
        self.sampler = None
        self.pulse = Pulse()
        self.parts = []
        self.periods = {}

    def run(self):
        seconds = self.args.minutes * 60
        self.server.start()
        hook = load.Hook(self)
        with load.Api(self.http) as api:
            api.ask("PUT", f"/api/v1/tubes/{load.HOOKED}/settings", hook.settings())
            self.set_schedules(api)
        self.parts = [kind(self, self.args.seed) for kind in load.PRODUCERS + load.WORKERS]
        self.sampler = samples.Sampler(self, self.args.every)
        for part in self.parts + [self.sampler]:
            part.start()
        until = now() + seconds
        while now() < until and self.server.is_running() and not self.ledger.faults["answer"] \
                and self.sampler.error is None:
            time.sleep(0.2)
        self.sampler.stop.set()
        self.sampler.join(PATIENCE)
        self.check(self.sampler.error is None, f"a sample a second ({self.sampler.error})")
        self.settle(hook)
        self.judge()
        samples.judge(self.sampler.samples, min(120, seconds / 5), self.args.lateness_slack,
                      self.check)

    def set_schedules(self, api):
        for name, (when, overlap) in load.SCHEDULES.items():
            path = "/api/v1/schedules/" + name.replace(" ", "%20")
            api.ask("PUT", path, {"tube": load.INSTANCES, "body": name, "overlap": overlap, **when})

    def settle(self, hook):
        """No more is put, and what is there is worked off."""
        self.ending.set()
        hook.mood = "take"
        for part in self.parts:
            if isinstance(part, load.PRODUCERS):
                part.join(PATIENCE)
                if part.is_alive():
                    self.check(False, f"{type(part).__name__} ends")
        with load.Api(self.http) as api:
            for name in load.SCHEDULES:
                path = "/api/v1/schedules/" + name.replace(" ", "%20")
                _, self.periods[name] = api.ask("GET", path)
                api.ask("DELETE", path)
            begun = now()
            while now() < begun + PATIENCE and (self.ledger.live or self.left(api)):
                time.sleep(0.1)
            left = self.left(api)
        self.ended.set()
        for part in self.parts:
            part.join(PATIENCE)
        self.check(not self.ledger.live and left == 0, f"all that was put is done in the end "
                   f"({len(self.ledger.live)} are not, {left} jobs are left)")

    @staticmethod
    def left(api):
        jobs = api.ask("GET", "/api/v1/stats")[1]["jobs"]
        return sum(jobs[state] for state in ("ready", "reserved", "delayed", "buried"))

    def judge(self):
        counts, faults = self.ledger.counts, self.ledger.faults
        print(f"  {counts['put']:,} put, {counts['taken']:,} deliveries, {counts['done']:,} done, "
              f"{counts['cancelled']:,} cancelled, {counts['released']:,} given back, "
              f"{counts['buried']:,} buried")
        for fault in ("early", "came back", "two leases", "twice", "period twice", "answer"):
            self.check(faults[fault] == 0, f"{fault}: {faults[fault]}")
        for detail in self.ledger.details:
            print("    " + detail)
        for name, schedule in self.periods.items():
            self.judge_schedule(name, schedule)
        events = next(part.events for part in self.parts if isinstance(part, load.Watcher))
        seconds = self.sampler.samples[-1].at
        self.check(events >= 0.9 * seconds - 2, f"{events} events of the dashboard in "
                   f"{seconds:.0f} s")
        status = self.server.terminate()
        self.check(status == 0, f"exit status {status} after SIGTERM")
        # The endpoint fails on purpose, and that is told.
        log = [line for line in self.server.log.read_text(errors="replace").splitlines()
               if "the webhook of tube hooked " not in line]
        self.check(not log, "nothing worth a warning is in the log")

    def judge_schedule(self, name, schedule):
        """Each period has its instance, or is counted as missed or skipped."""
        # One may have been put between the last look at the schedule and the end of it.
        last = load.milliseconds(schedule["last_due_at"]) if "last_due_at" in schedule else 0
        seen = [period for period in self.ledger.instances[name] if period <= last]
        step = 60_000 if name.startswith("minute") else 1_000
        accounted = schedule["runs"] + schedule["missed_periods"] + schedule["skipped_periods"]
        passed = (max(seen) - min(seen)) // step + 1 if seen else 0
        may_miss = self.pulse.longest > 0.5  # The machine stood still.
        overlap = load.SCHEDULES[name][1]
        right = schedule["runs"] == len(seen) and accounted >= passed and \
            (may_miss or schedule["missed_periods"] == 0) and \
            (overlap != "allow" or schedule["skipped_periods"] == 0)
        self.check(right, f"{name}: {schedule['runs']} instances, of which {len(seen)} came, "
                   f"{schedule['missed_periods']} missed, {schedule['skipped_periods']} skipped, "
                   f"of {passed} periods")


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long [10]")
    parser.add_argument("--every", type=int, default=10, help="seconds of a line [10]")
    parser.add_argument("--lateness-slack", type=float, default=0.0, metavar="MS",
                        help="by which it may be higher in the end, since others use the machine")
    args = parse(parser)
    print(f"seed {args.seed}, {args.minutes:g} minutes", flush=True)
    return run_test("soak", args, Soak, *load.GONE)


if __name__ == "__main__":
    sys.exit(main())
