#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 in a loop: a random load, a kill at a random moment, and a judge (record.py).

Each round starts the server on the same folder, runs put, reserve, delete, release, bury, touch,
kick and kick-job over several connections, and stops it: mostly with SIGKILL, sometimes with
SIGKILL and again while it recovers, sometimes with SIGTERM (then it must exit 0). After each
restart the record is compared with every job. At the end all jobs are reserved and deleted.

Some connections own their tubes, so that the outcome of each of their commands is known; others
compete for one tube.
"""

import random
import sys
import threading
import time

from beanstalk import Client, Folder, Gone, Server, argument_parser, now, parse, put_command
from record import Operation, Record

SHARED = "shared"
MAX_JOBS = 400  # in its tubes; above it, a connection takes out more than it puts in
DRAIN_BATCH = 63


class Load:
    """One connection that sends batches of random commands until the server is gone."""

    def __init__(self, number, tubes, record, seed, max_delay, extent):
        self.name = f"c{number}"
        self.tubes = tubes
        self.is_alone = SHARED not in tubes
        self.record = record
        self.random = random.Random(seed)
        self.max_delay = max_delay
        self.max_batch = extent
        self.held = []
        self.serial = 0
        self.used = None
        self.cut_off = []
        self.error = None

    def run(self, port, stop):
        """Until the server closes the connection. `self.cut_off` is then what was not answered."""
        self.held = []
        self.cut_off = []
        self.used = self.tubes[0]
        try:
            with Client(port) as client:
                for tube in self.tubes:
                    client.ask(f"watch {tube}")
                client.ask("ignore default")
                client.ask(f"use {self.used}")
                while not stop.is_set():
                    self.batch(client)
        except Gone:
            pass
        except Exception as error:  # a timeout, or a fault of ours: the round must not hide it
            self.error = error

    def batch(self, client):
        with self.record.lock:
            operations, data = self.make_batch()
            for operation in operations:
                if operation is not None:
                    self.record.sent(operation)
        self.cut_off = [operation for operation in operations if operation is not None]
        client.send(data)
        for operation in operations:
            reply = client.reply()
            if operation is not None:  # else it is a `use`
                with self.record.lock:
                    self.record.answered(self, operation, reply)
                self.cut_off.pop(0)

    def make_batch(self):
        """Commands, each on another job; an Operation each, None for `use`. Called locked."""
        known = [job for tube in self.tubes for job in self.record.tubes[tube].values()]
        mine = known if self.is_alone else []
        self.held = [job for job in self.held if job.holder is self]
        buried = {tube: self.record.buried[tube] for tube in self.tubes}
        if self.is_alone and buried[self.used] and self.random.random() < 0.05:
            count = self.random.choice([1, 1, 2, 5, 1000])
            return [Operation("kick", tube=self.used, count=count)], b"kick %d\r\n" % count

        operations, data, busy = [], [], set()
        for _ in range(self.random.randint(1, self.max_batch)):
            choice = self.random.random()
            free = [job for job in self.held if job not in busy]
            if free and choice < 0.4:
                operation, text = self.on_held(self.random.choice(free))
            elif choice < (0.5 if len(known) > MAX_JOBS else 0.75):
                if self.random.random() < 0.1:
                    self.used = self.random.choice(self.tubes)
                    operations.append(None)
                    data.append(b"use %s\r\n" % self.used.encode())
                operation, text = self.make_put()
            elif choice < 0.85 or not mine:
                operation = Operation("reserve", tube=self.tubes, alone=self.is_alone)
                text = b"reserve-with-timeout 0\r\n"
            else:
                job = self.random.choice(mine)
                if job in busy or job.holder is not None:
                    continue
                verb = "delete" if self.random.random() < 0.6 else "kick-job"
                if verb == "kick-job" and job.shape.state == "ready":
                    continue
                operation, text = Operation(verb, job), b"%s %d\r\n" % (verb.encode(), job.id)
            if operation.job is not None:
                busy.add(operation.job)
            operations.append(operation)
            data.append(text)
        return operations, b"".join(data)

    def make_put(self):
        self.serial += 1
        size = self.random.choice([0, 20, 200, 200, 200, 2000, 2000, 20000]) \
            if self.random.random() < 0.98 else 65535 - 64
        token = f"{self.name}.{self.serial}.{self.random.getrandbits(32):08x}:".encode()
        body = token + self.random.randbytes(size)
        ttr = 60 if not self.is_alone or self.random.random() < 0.8 else 2
        operation = Operation("put", pri=self.make_pri(), delay=self.make_delay(), body=body,
                              tube=self.used, ttr=ttr)
        return operation, put_command(body, operation.pri, operation.delay, ttr)

    def on_held(self, job):
        choice = self.random.random()
        if choice < 0.4:
            return Operation("delete", job), b"delete %d\r\n" % job.id
        if choice < 0.7:
            operation = Operation("release", job, pri=self.make_pri(), delay=self.make_delay())
            return operation, b"release %d %d %d\r\n" % (job.id, operation.pri, operation.delay)
        if choice < 0.9 and self.is_alone:
            operation = Operation("bury", job, pri=self.make_pri())
            return operation, b"bury %d %d\r\n" % (job.id, operation.pri)
        return Operation("touch", job), b"touch %d\r\n" % job.id

    def make_pri(self):
        return self.random.choice([0, 1, 2, 1023, 1024, 4294967295])

    def make_delay(self):
        return self.random.choice([0, 0, 0] + list(range(self.max_delay + 1)))


def server_arguments(args):
    partitions = [] if args.partitions == 1 else ["--partitions", str(args.partitions)]
    return args.server_args.split() + partitions


class KillLoop:
    def __init__(self, args, folder):
        self.args = args
        self.random = random.Random(args.seed)
        self.record = Record(args.partitions)
        self.server = Server(args.server, folder / "store", server_arguments(args))
        self.recoveries = []
        self.kills_in_recovery = 0
        tubes = [[f"own-{n}-{t}" for t in range(1 + n % 3)] for n in range(args.connections)]
        tubes += [[SHARED]] * args.rivals
        self.loads = [Load(n, tube, self.record, f"{args.seed}.{n}", args.max_delay, args.batch)
                      for n, tube in enumerate(tubes)]
        self.ends = self.plan_ends()

    def plan_ends(self):
        """How each round ends: in ten rounds five, three and two times, in random order."""
        if self.args.end:
            return [self.args.end] * self.args.rounds
        ends = []
        while len(ends) < self.args.rounds:
            ten = ["kill"] * 5 + ["kill, and in recovery"] * 3 + ["term"] * 2
            self.random.shuffle(ten)
            ends += ten
        return ends[: self.args.rounds]

    def run(self):
        self.recoveries.append(self.server.start())
        for number, end in enumerate(self.ends):
            self.round(number, end)
            if self.args.first_only and self.record.violations:
                return
        self.drain()

    def round(self, number, end):
        stop = threading.Event()
        threads = [threading.Thread(target=load.run, args=(self.server.port, stop))
                   for load in self.loads]
        for thread in threads:
            thread.start()
        time.sleep(self.random.uniform(0.1, self.args.seconds))
        if end == "term":
            self.record.is_draining = True
            status = self.server.terminate()
            if status != 0:
                self.record.violation("exit", f"exit status {status} after SIGTERM, not 0")
                self.server.kill()
        else:
            self.server.kill()
        killed_at = now()
        stop.set()
        for thread in threads:
            thread.join(30)
        self.record.is_draining = False
        for load in self.loads:
            if load.error is not None:
                self.record.violation("answer", f"{load.name}: {load.error!r}")
                load.error = None
            for operation in load.cut_off:
                self.record.cut_off(operation, killed_at)
        self.record.end_reservations()
        self.restart(end)
        if self.args.verbose:
            print(f"round {number + 1}: {end}; {len(self.record.jobs)} jobs, recovered in "
                  f"{self.recoveries[-1]:.3f} s, violations {dict(self.record.violations)}",
                  flush=True)

    def restart(self, end):
        if end == "kill, and in recovery":
            for _ in range(self.random.randint(1, 3)):
                self.server.launch()
                longest = self.random.choice([0.0, 0.003, 0.01, 0.03, 0.06])
                time.sleep(longest * self.random.random())
                self.server.kill()
                self.kills_in_recovery += 1
        self.recoveries.append(self.server.start())
        with self.server.client() as client:
            self.record.judge_restart(client, everything=self.args.rounds <= 20)

    def drain(self):
        """Every job is delivered, none early, and then nothing is left, restart included."""
        with self.server.client() as client:
            client.held = []
            tubes = sorted({tube for load in self.loads for tube in load.tubes})
            for tube in tubes:
                client.ask(f"watch {tube}")
                if self.record.buried[tube]:
                    client.ask(f"use {tube}")
                    kick = Operation("kick", tube=tube, count=1 << 20)
                    self.ask(client, [(kick, f"kick {kick.count}\r\n")])
            # How long that takes depends on the disk: what counts is that something still comes.
            left, patience = len(self.record.jobs), now() + self.args.max_delay + 10
            while self.record.jobs and not self.record.violations["late"] and now() < patience:
                self.deliver_some(client, tubes)
                if len(self.record.jobs) < left:
                    left, patience = len(self.record.jobs), now() + self.args.max_delay + 10
        for job in list(self.record.jobs.values())[:5]:
            self.record.violation("lost", f"job {job.id} ({job.shape}) was never delivered", job)
        self.server.kill()
        self.recoveries.append(self.server.start())
        with self.server.client() as client:
            self.record.judge_restart(client, everything=True)
        self.server.kill()

    def deliver_some(self, client, tubes):
        """Waits for a job, takes what else is ready, and deletes all of it."""
        for count, timeout in ((1, 1), (DRAIN_BATCH, 0)):
            reserves = [Operation("reserve", tube=tubes, alone=True) for _ in range(count)]
            self.ask(client, [(operation, f"reserve-with-timeout {timeout}\r\n")
                              for operation in reserves])
            if not client.held:
                return
        self.ask(client, [(Operation("delete", job), f"delete {job.id}\r\n")
                          for job in client.held])
        client.held.clear()

    def ask(self, client, commands):
        for operation, _ in commands:
            self.record.sent(operation)
        client.send("".join(text for _, text in commands))
        for operation, _ in commands:
            self.record.answered(client, operation, client.reply())

    def report(self):
        """Prints the table; returns the exit status."""
        record, relaxed = self.record, set(self.args.relax)
        counts = record.counts
        verbs = ["put", "reserve", "delete", "release", "bury", "touch", "kick", "kick-job"]
        print(f"\n{self.args.rounds} rounds, seed {self.args.seed}, "
              f"{self.kills_in_recovery} kills in recovery, {self.ends.count('term')} SIGTERM")
        print("\n  command      answered   cut off")
        for verb in verbs:
            print(f"  {verb:<10}{counts[verb]:>11,}{counts['cut off: ' + verb]:>10,}")
        print(f"\n  cut off and done after all      {counts['cut off, done']:>8,}")
        print(f"  cut off and not done            {counts['cut off, not done']:>8,}")
        times = sorted(self.recoveries)
        print(f"  restart, median / longest       {times[len(times) // 2]:>8.3f} /"
              f" {times[-1]:.3f} s\n")
        for category in ["lost", "early", "late", "came_back", "phantom", "pri", "due", "state",
                         "lease", "order", "buried_order", "body", "id_reused", "exit", "answer"]:
            note = "  (expected of this server)" if category in relaxed else ""
            print(f"  {category:<14}{record.violations[category]:>8}{note}")
        for detail in record.details:
            print(f"\n  {detail}")
        bad = {category for category, count in record.violations.items() if count} - relaxed
        if bad:
            print(f"\nFAILED: {', '.join(sorted(bad))}; again with --seed {self.args.seed} (the "
                  "choices repeat, the moment of the kill does not)")
            print(self.server.log_tail())
        else:
            print("\nok")
        return 1 if bad else 0


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="how many kills [10]")
    parser.add_argument("--seconds", type=float, default=1.2, help="longest load of a round [1.2]")
    parser.add_argument("--connections", type=int, default=4, help="with tubes of their own [4]")
    parser.add_argument("--rivals", type=int, default=3, help="on one shared tube [3]")
    parser.add_argument("--partitions", type=int, default=1, help="of the server [1]")
    parser.add_argument("--batch", type=int, default=12, help="most commands in one write [12]")
    parser.add_argument("--max-delay", type=int, default=3, help="longest delay in seconds [3]")
    parser.add_argument("--relax", action="append", default=[], metavar="CATEGORY",
                        help="do not fail for this kind of violation (known of another server)")
    parser.add_argument("--first-only", action="store_true", help="stop after a bad round")
    parser.add_argument("--end", choices=["kill", "kill, and in recovery", "term"],
                        help="end each round so [a mixture]")
    parser.add_argument("--verbose", action="store_true", help="a line a round")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    with Folder("kill", args.keep) as folder:
        loop = KillLoop(args, folder)
        try:
            loop.run()
        except (Gone, TimeoutError, RuntimeError) as error:
            loop.record.violation("answer", f"the server is there and answers: {error!r}")
        finally:
            loop.server.kill()
        return loop.report()


if __name__ == "__main__":
    sys.exit(main())
