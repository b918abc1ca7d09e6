#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9, again and again, of a server with schedules.

A schedule that was acknowledged is there after each start, and one whose deletion was is not. Each
of its periods has one instance, or is counted as missed or skipped, wherever the kill comes:

    periods from when it was set until the next  =  instances + missed + skipped + queued

None is missed that came while the server ran, none is early, and two of a schedule that does not
overlap do not live at the same time.
"""

import datetime
import http.client
import random
import socket
import sys
import threading
import time
import urllib.parse

from beanstalk import PATIENCE, Checks, Folder, Pulse, Server, argument_parser, now, parse
from webhook_kill_loop import Api

TUBES = ("instances-a", "instances-b", "instances-c")
STEPS = {"every": 1000, "cron": 1000, "even": 2000, "by hand": 86_400_000}
SPECS = {"every": {"every_ms": 1000}, "cron": {"cron": "* * * * * *"},
         "even": {"cron": "*/2 * * * * *", "time_zone": "Europe/Amsterdam"},
         "by hand": {"every_ms": 86_400_000}}
HOLD = 1.4  # Seconds that an instance takes, of schedules that may not overlap.
GONE = (OSError, http.client.HTTPException)


def milliseconds(text):
    return round(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


class Schedule:
    """One, and what is known of it."""

    def __init__(self, name, spec, tube, missed="once", overlap="allow", jitter_ms=0):
        self.name, self.spec, self.overlap = name, spec, overlap
        self.step = STEPS[spec]
        self.path = "/api/v1/schedules/" + urllib.parse.quote(name, safe="")
        self.settings = {"tube": tube, "body": name, "missed": missed, "overlap": overlap,
                         "jitter_ms": jitter_ms, "ttr_ms": 600_000, **SPECS[spec]}
        self.state = "unset"     # set, deleted; or unsure: what was asked was not answered
        self.first_due = None
        self.deleted_at = None   # By the calendar, in ms: when its deletion had been answered.
        self.instances = {}      # id: period
        self.ids = {}            # period: id
        self.latest = 0          # The instance that was delivered last.
        self.runs_sent = self.runs_answered = 0
        self.run_ids = set()

    def is_period(self, period):
        return period % self.step == 0


class Record:
    """What was delivered. Shared by the workers."""

    def __init__(self, schedules):
        self.lock = threading.Lock()
        self.schedules = {schedule.name: schedule for schedule in schedules}
        self.faults = []
        self.ended, self.gone = set(), set()  # ids: an end was sent; was answered

    def fault(self, text):
        self.faults.append(text)

    def delivered(self, job):
        wall = time.time() * 1000
        with self.lock:
            job_id, period = int(job["id"]), milliseconds(job["due_at"])
            schedule = self.schedules[job["schedule"]]
            if wall < period:
                self.fault(f"{schedule.name} {job['due_at']} is early")
            if job_id in self.gone:
                self.fault(f"{schedule.name} {job['due_at']}: job {job_id} came back")
            if job_id not in schedule.instances:
                self.first_delivery(schedule, job_id, period)
            elif schedule.overlap != "allow" and job_id != schedule.latest:
                self.fault(f"{schedule.name}: job {job_id} lives, and so did a later one")
            self.ended.discard(job_id)
        return schedule

    def first_delivery(self, schedule, job_id, period):
        if schedule.overlap != "allow" and schedule.latest and schedule.latest not in self.ended:
            self.fault(f"{schedule.name}: {schedule.latest} lives, and {job_id} came")
        if schedule.is_period(period):
            known = schedule.ids.setdefault(period, job_id)
            if known != job_id:
                self.fault(f"{schedule.name}: {known} and {job_id} are both of {period}")
        elif schedule.spec != "by hand":
            self.fault(f"{schedule.name}: {period} is no period")
        if schedule.deleted_at is not None and period > schedule.deleted_at:
            self.fault(f"{schedule.name}: {period} came after it was deleted")
        schedule.instances[job_id] = period
        schedule.latest = max(schedule.latest, job_id)


class Worker(threading.Thread):
    """Reserves instances, keeps some for a while, ends them; goes on after each start."""

    def __init__(self, port, record, seed, stop):
        super().__init__(daemon=True)
        self.port, self.record, self.stop = port, record, stop
        self.random = random.Random(seed)

    def run(self):
        while not self.stop.is_set():
            try:
                self.work(Api(self.port))
            except GONE:
                time.sleep(0.01)
            except Exception as error:  # pylint: disable=broad-except
                self.record.fault(f"a worker: {error!r}")
                return

    def work(self, api):
        held = []
        while not self.stop.is_set():
            status, answer = api.ask("POST", "/api/v1/reserve", {
                "tubes": list(TUBES), "max": 10, "wait_ms": 100})
            if status != 200:
                raise RuntimeError(f"reserve: {status} {answer}")
            for job in answer["jobs"]:
                schedule = self.record.delivered(job)
                until = now() + (0 if schedule.overlap == "allow" else
                                 HOLD * self.random.uniform(0.2, 2))
                held.append((until, job))
            for item in [item for item in held if item[0] <= now()]:
                held.remove(item)
                self.end(api, item[1])

    def end(self, api, job):
        verb = "bury" if self.random.random() < 0.1 else "ack"
        with self.record.lock:
            self.record.ended.add(int(job["id"]))
        status, answer = api.ask("POST", f"/api/v1/jobs/{job['id']}/{verb}",
                                 {"receipt": job["receipt"]})
        if status != 200:
            raise RuntimeError(f"{verb} {job}: {status} {answer}")
        if verb == "ack":
            with self.record.lock:
                self.record.gone.add(int(job["id"]))


class Loop:
    def __init__(self, args, folder, checks):
        self.args, self.check = args, checks.that
        self.random = random.Random(args.seed)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.http = probe.getsockname()[1]
        self.server = Server(args.server, folder / "store", args.server_args.split() + [
            "--http-listen", f"127.0.0.1:{self.http}"])
        self.schedules = self.plan()
        self.record = Record(self.schedules)
        self.down = []  # (killed, ready), by the calendar, in ms
        self.pulse = Pulse()
        self.final = {}

    def plan(self):
        schedules = [Schedule("by hand", "by hand", TUBES[0])]
        for spec in ("every", "cron", "even"):
            for overlap in ("allow", "skip", "queue"):
                number = len(schedules)
                schedules.append(Schedule(
                    f"{spec} {overlap}", spec, TUBES[number % 3],
                    missed=("once", "skip")[number % 2], overlap=overlap,
                    jitter_ms=400 if spec == "even" else 0))
        return schedules

    def run(self):
        self.server.start()
        stop = threading.Event()
        workers = [Worker(self.http, self.record, self.random.random(), stop) for _ in range(3)]
        for schedule in self.schedules:
            self.set(Api(self.http), schedule)
        for worker in workers:
            worker.start()
        for number in range(self.args.rounds):
            self.round(number)
            print(f"round {number + 1}: {sum(len(s.instances) for s in self.schedules)} instances, "
                  f"down for {(self.down[-1][1] - self.down[-1][0]) / 1000:.2f} s", flush=True)
        time.sleep(2)
        self.finish()
        stop.set()
        for worker in workers:
            worker.join(PATIENCE)
        self.check(self.server.terminate() == 0, "it ends cleanly")

    def set(self, api, schedule):
        before, schedule.state = schedule.state, "unsure"
        status, answer = api.ask("PUT", schedule.path, schedule.settings)
        if status not in (200, 201):
            raise RuntimeError(f"{schedule.name}: {status} {answer}")
        if before == "unset":
            schedule.first_due = milliseconds(answer["due_at"])
        schedule.state = "set"

    def round(self, number):
        """Load, some of it cut off by the kill; then what was promised is there."""
        api = Api(self.http)
        killer = threading.Timer(self.args.seconds * self.random.uniform(0.4, 1.6), self.kill)
        killer.start()
        fleeting, serial = [], 0
        try:
            while True:
                time.sleep(self.random.uniform(0, 0.05))
                choice = self.random.randrange(4)
                if choice == 0:  # As it was: nothing moves.
                    self.set(api, self.random.choice(self.schedules[:10]))
                elif choice == 1:
                    self.run_by_hand(api)
                elif choice == 2 or not fleeting:
                    serial += 1
                    schedule = Schedule(f"fleeting {number}.{serial}", "every",
                                        self.random.choice(TUBES))
                    with self.record.lock:
                        self.record.schedules[schedule.name] = schedule
                        self.schedules.append(schedule)
                    fleeting.append(schedule)
                    self.set(api, schedule)
                else:
                    self.delete(api, fleeting.pop(self.random.randrange(len(fleeting))))
        except GONE:
            pass
        killer.join()
        self.restart()
        self.look()

    def run_by_hand(self, api):
        schedule = self.schedules[0]
        schedule.runs_sent += 1
        status, answer = api.ask("POST", schedule.path + "/run")
        if status != 201:
            raise RuntimeError(f"run: {status} {answer}")
        schedule.runs_answered += 1
        schedule.run_ids.add(int(answer["id"]))

    def delete(self, api, schedule):
        schedule.state = "unsure"
        status, answer = api.ask("DELETE", schedule.path)
        if status != 204:
            raise RuntimeError(f"delete {schedule.name}: {status} {answer}")
        with self.record.lock:
            schedule.deleted_at = time.time() * 1000
        schedule.state = "deleted"

    def kill(self):
        self.down.append([time.time() * 1000, None])
        self.server.kill()

    def restart(self):
        if self.random.random() < 0.4:
            time.sleep(self.random.uniform(1, 3.3))  # Periods pass.
        if self.random.random() < 0.4:
            self.server.launch()
            time.sleep(0.05 * self.random.random())
            self.server.kill()  # In the recovery.
        self.server.start()
        self.down[-1][1] = time.time() * 1000

    def look(self):
        """Those that were acknowledged are there; fleeting ones go."""
        api = Api(self.http)
        status, page = api.ask("GET", "/api/v1/schedules?limit=1000")
        there = {schedule["name"]: schedule for schedule in page["schedules"]}
        for schedule in self.schedules:
            if schedule.state == "set" and schedule.name not in there:
                self.record.fault(f"{schedule.name} is lost")
            if schedule.state == "deleted" and schedule.name in there:
                self.record.fault(f"{schedule.name} came back")
        for schedule in [s for s in self.schedules if s.name.startswith("fleeting")]:
            if schedule.name in there:
                self.delete(api, schedule)
            elif schedule.state == "unsure":
                schedule.state = "deleted"  # Or was never set.
        for schedule in self.schedules[:10]:
            if schedule.state == "unsure":
                self.set(api, schedule)
        if status != 200 or "next" in page:
            self.record.fault(f"the list of schedules: {status}")

    def finish(self):
        """The last look at each, its deletion, and what is left is taken."""
        api = Api(self.http)
        for schedule in self.schedules[:10]:
            _, self.final[schedule.name] = api.ask("GET", schedule.path)
            self.delete(api, schedule)
        until = now() + PATIENCE
        while now() < until:
            _, stats = api.ask("GET", "/api/v1/stats")
            if sum(stats["jobs"][state] for state in ("ready", "reserved", "delayed")) == 0:
                break
            time.sleep(0.05)
        self.check(now() < until, "all instances are taken in the end")

    def judge(self):
        for schedule in self.schedules[1:10]:
            self.judge_one(schedule, self.final[schedule.name])
        hand = self.schedules[0]
        self.check(hand.run_ids <= set(hand.instances) and
                   hand.runs_answered <= len(hand.instances) <= hand.runs_sent,
                   f"by hand: {hand.runs_answered} runs were answered of {hand.runs_sent}, "
                   f"{len(hand.instances)} instances came")
        count = len(self.schedules) - 10
        self.check(count >= self.args.rounds, f"{count} fleeting schedules were set and deleted")
        self.check(not self.record.faults, f"{len(self.record.faults)} faults")
        for fault in self.record.faults[:10]:
            print("    " + fault)

    def judge_one(self, schedule, final):
        due = milliseconds(final["due_at"])
        last = milliseconds(final["last_due_at"]) if "last_due_at" in final else 0
        # What was put after the last look does not count.
        seen = {period for period in schedule.ids if period <= last}
        passed = (due - schedule.first_due) // schedule.step
        queued = 1 if "queued" in final else 0
        missed, skipped = final["missed_periods"], final["skipped_periods"]
        accounted = final["runs"] + missed + skipped + queued
        lost = []
        if schedule.overlap == "allow":
            periods = range(schedule.first_due, due, schedule.step)
            absent = [period for period in periods if period not in seen]
            lost = [period for period in absent if not self.excused(schedule, period)]
            right = len(absent) == missed and skipped == 0
        else:
            right = schedule.overlap == "queue" or not queued
        self.check(right and not lost and final["runs"] == len(seen) and accounted == passed,
                   f"{schedule.name}: {passed} periods: {final['runs']} instances, of which "
                   f"{len(seen)} came, {missed} missed, {skipped} skipped, {queued} queued"
                   + (f"; without reason {lost}" if lost else ""))

    def excused(self, schedule, period):
        """Whether the server was down from this period to the next. (An instance that was not
        durable at the kill is put at the next start, unless another period comes first.)"""
        slack = 300 + 2000 * self.pulse.longest
        offset = schedule.settings["jitter_ms"]
        return any(killed <= period + offset + slack and
                   ready >= period + schedule.step - slack for killed, ready in self.down)


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.5, help="of a round")
    args = parse(parser)
    print(f"seed {args.seed}")
    checks = Checks()
    with Folder("schedules", args.keep) as folder:
        loop = Loop(args, folder, checks)
        try:
            loop.run()
            loop.judge()
        except GONE + (RuntimeError, TimeoutError) as error:
            checks.that(False, f"the server is there and answers: {error!r}")
        finally:
            loop.server.kill()
            if checks.failed:
                print(loop.server.log_tail())
    return checks.status()


if __name__ == "__main__":
    sys.exit(main())
