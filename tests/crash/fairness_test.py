#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One tenant has a herd of jobs, all due in the same second: nobody else notices.

The herd (20,000 jobs, or --jobs 1000000) is put by HTTP for one date, and worked off by pipelined
connections of beanstalk. Other tenants have ten jobs each that were put later and are due at the
same time, and some later ones. Judged by name, after public reports (docs/internals/testing.md):

  F1   the herd is delivered once each, and who has other tubes is not late
  F2   what is due later is not progressively later
  F17  a worker who takes from the tube of the herd and from another has the other's jobs in turn
"""

import http.client
import json
import multiprocessing
import socket
import sys
import threading
import time

from beanstalk import PATIENCE, Client, Pulse, Server, argument_parser, now, parse, run_test
from webhook_kill_loop import Api

BATCH = 10_000    # Jobs in a request.
DEPTH = 100       # Jobs that a worker of the herd takes at a time.
TEN = 10
LATE = 1.0        # Seconds that others may be late, beside what this machine adds to that, and
FIRED = 250_000   # beside the herd: what is due behind it waits until it is ready, so many a s.
LATER = 16        # Jobs that are due half a second after each other.


def work_off(port, limit, ids):
    """A worker of the herd, in a process of its own: reserves and deletes until nothing comes."""
    with Client(port) as client:
        client.ask("watch herd")
        client.ask("ignore default")
        idle_since = None
        while idle_since is None or now() < idle_since + limit:
            client.send("reserve-with-timeout 0\r\n" * DEPTH)
            replies = [client.reply() for _ in range(DEPTH)]
            found = [reply.id for reply in replies if reply.word == "RESERVED"]
            if not found:
                idle_since = idle_since or now()
                time.sleep(0.01)
                continue
            idle_since = None
            client.send("".join(f"delete {job_id}\r\n" for job_id in found))
            ids.put([job_id for job_id in found if client.reply().word == "DELETED"])
    ids.put(None)


class Tenant(threading.Thread):
    """Waits for `count` jobs in a tube of its own. `late` is how late each of them came."""

    def __init__(self, name, count, due):
        super().__init__(daemon=True)
        self.name, self.count, self.due = name, count, due
        self.late, self.error = [], None

    def run(self):
        try:
            self.take()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def got(self, body):
        self.late.append(time.time() - float(body))

    @property
    def body_of_herd(self):
        return f"of the herd, due at {self.due}".encode()


class BeanstalkTenant(Tenant):
    def __init__(self, server, *rest):
        super().__init__(*rest)
        self.client = server.client()
        self.client.ask(f"watch {self.name}")
        self.client.ask("ignore default")

    def take(self):
        for _ in range(self.count):
            reply = self.client.ask("reserve-with-timeout 200")
            self.got(reply.body)
            self.client.ask(f"delete {reply.id}")
        self.client.close()


class HttpTenant(Tenant):
    def __init__(self, port, *rest):
        super().__init__(*rest)
        self.api = Api(port)

    def take(self):
        while len(self.late) < self.count:
            _, answer = self.api.ask("POST", "/api/v1/reserve", {
                "tubes": [self.name], "max": 1, "wait_ms": 50_000})
            for job in answer["jobs"]:
                self.got(job["body"])
                self.api.ask("POST", f"/api/v1/jobs/{job['id']}/ack", {"receipt": job["receipt"]})


class Shared(Tenant):
    """Takes from the tube of the herd, too, one job at a time: `dispatches` in all, of
    which `before` came before the first of the other tube."""

    dispatches = 0
    before = 0

    def __init__(self, port, *rest):
        super().__init__(*rest)
        self.api = Api(port)

    def take(self):
        while len(self.late) < self.count:
            _, answer = self.api.ask("POST", "/api/v1/reserve", {
                "tubes": ["herd", self.name], "max": 1, "wait_ms": 50_000})
            for job in answer["jobs"]:
                self.dispatches += 1
                if job["tube"] == self.name:
                    self.got(job["body"])
                elif not self.late:
                    self.before += 1
                self.api.ask("POST", f"/api/v1/jobs/{job['id']}/ack", {"receipt": job["receipt"]})


class BeanstalkShared(Shared):
    """The same by beanstalk's protocol."""

    def __init__(self, server, *rest):  # pylint: disable=super-init-not-called
        Tenant.__init__(self, *rest)
        self.client = server.client()
        self.client.ask("watch herd")
        self.client.ask(f"watch {self.name}")
        self.client.ask("ignore default")

    def take(self):
        while len(self.late) < self.count:
            reply = self.client.ask("reserve-with-timeout 200")
            self.dispatches += 1
            if reply.body != self.body_of_herd:
                self.got(reply.body)
            elif not self.late:
                self.before += 1
            self.client.ask(f"delete {reply.id}")
        self.client.close()


class Fairness:
    def __init__(self, args, folder, checks):
        self.args, self.check = args, checks.that
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.http = probe.getsockname()[1]
        self.server = Server(args.server, folder / "store", args.server_args.split() + [
            "--tubes-in-turn", "--http-listen", f"127.0.0.1:{self.http}"])
        self.pulse = Pulse()

    def put(self, tube, dues, body=None):
        """Jobs whose bodies are the dates that they are due at."""
        lines = "\n".join(json.dumps({"body": body or str(due), "due_at": round(due * 1000)})
                          for due in dues)
        status, results = Api(self.http).ask_lines(f"/api/v1/tubes/{tube}/jobs:batch", lines)
        if status != 200 or any(result["status"] != 201 for result in results):
            raise RuntimeError(f"put: {status} {results[:3]}")

    def put_herd(self, due):
        begun = now()
        body = Tenant("herd", 0, due).body_of_herd.decode()
        for at in range(0, self.args.jobs, BATCH):
            self.put("herd", [due] * min(BATCH, self.args.jobs - at), body)
        print(f"  {self.args.jobs:,} jobs put in {now() - begun:.1f} s", flush=True)

    def run(self):
        self.server.start()
        due = float(round(time.time() + 2 + self.args.jobs / self.args.put_rate))
        self.put_herd(due)
        tenants = {"beanstalk": BeanstalkTenant(self.server, "b", TEN, due),
                   "http": HttpTenant(self.http, "c", TEN, due),
                   "shared, http": Shared(self.http, "d", TEN, due),
                   "shared, beanstalk": BeanstalkShared(self.server, "f", TEN, due),
                   "later": BeanstalkTenant(self.server, "e", LATER, due)}
        for tenant in tenants.values():
            dues = [due] * TEN if tenant.count == TEN else \
                [due + (number + 1) / 2 for number in range(LATER)]
            self.put(tenant.name, dues)
        if time.time() > due - 0.5:
            raise RuntimeError("the machine is too slow: the herd was due before it was put")
        ids = multiprocessing.Queue()
        workers = [multiprocessing.Process(target=work_off, args=(self.server.port, 10.0, ids),
                                           daemon=True) for _ in range(self.args.workers)]
        time.sleep(max(0.0, due - time.time() - 0.3))
        for thread in list(tenants.values()) + workers:
            thread.start()
        delivered, seconds = self.collect(ids, len(workers), due)
        for tenant in tenants.values():
            tenant.join(PATIENCE)
        self.judge(tenants, delivered, seconds)
        self.check(self.server.terminate() == 0, "it ends cleanly")

    def collect(self, ids, running, due):
        """The ids that workers have taken, and when the last came."""
        delivered, last = [], time.time()
        while running:
            taken = ids.get(timeout=PATIENCE + due - min(due, time.time()))
            if taken is None:
                running -= 1
            else:
                delivered += taken
                last = time.time()
        return delivered, last - due

    def judge(self, tenants, delivered, seconds):
        patience = LATE + self.args.jobs / FIRED + 2 * self.pulse.longest
        shared = [tenants["shared, http"], tenants["shared, beanstalk"]]
        of_herd = len(delivered) + sum(worker.dispatches - len(worker.late) for worker in shared)
        self.check(len(set(delivered)) == len(delivered) and of_herd == self.args.jobs,
                   f"F1: {of_herd:,} of {self.args.jobs:,} jobs of the herd came, each once, in "
                   f"{seconds:.1f} s")
        for name, scenario in (("beanstalk", "F1, beanstalk"), ("http", "F1, HTTP")):
            late = sorted(tenants[name].late)
            self.check(len(late) == TEN and 0 <= late[0] and late[-1] < patience,
                       f"{scenario}: ten jobs of another tube, due with the herd, came "
                       f"{self.ms(late)} late ({tenants[name].error})")
        late = tenants["later"].late
        self.check(len(late) == LATER and min(late) >= 0 and max(late) < patience,
                   f"F2: one due each half second came {self.ms(sorted(late))} late "
                   f"({tenants['later'].error})")
        third = LATER // 3
        self.check(sum(late[-third:]) <= sum(late[:third]) + third * (patience - LATE + 0.1),
                   f"F2: the last of them {self.ms(sorted(late[-third:]))}, the first "
                   f"{self.ms(sorted(late[:third]))}")
        # In turn, from the first on: they may all be ready later than the herd.
        for worker in shared:
            dispatches = worker.dispatches - worker.before
            self.check(worker.error is None and dispatches <= 3 * TEN and
                       max(worker.late) < patience + 1,
                       f"F17: a {type(worker).__name__} of both tubes had the ten within "
                       f"{dispatches} dispatches, {self.ms(sorted(worker.late))} late "
                       f"({worker.error})")

    @staticmethod
    def ms(late):
        return f"{late[len(late) // 2] * 1000:.1f} ms (median), {late[-1] * 1000:.1f} ms (most)" \
            if late else "never"


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="of the herd [20000]")
    parser.add_argument("--workers", type=int, default=2, help="of the herd [2]")
    parser.add_argument("--put-rate", type=float, default=10_000, metavar="N",
                        help="a second: so long before it is due the herd is put [10000]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    return run_test("fairness", args, Fairness, http.client.HTTPException)


if __name__ == "__main__":
    sys.exit(main())
