#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten million jobs due tomorrow: they cost no memory, and a start does not read them.

N jobs (200,000, or --jobs 10000000) of 200 bytes, due in a day, are put by pipelined connections
into a few tubes. The server's memory stays below 500 MB. Then it is killed; the next start answers
its first request within 5 seconds (of a machine that has time for it), knows how many jobs there
are, and any of them can be looked at and deleted. So does a second start, after a clean stop.
"""

import array
import os
import random
import selectors
import socket
import sys
import time

from beanstalk import PATIENCE, Gone, Server, argument_parser, now, parse, run_test

MB = 1_000_000
MAX_MEMORY = 500 * MB
MAX_START = 5.0  # seconds, if nobody else wants the processors
BODY = 200
DELAY = 86_400
CHUNK = 500  # puts in one write
MAX_UNANSWERED = 8 * CHUNK  # of a connection
NOISE = random.Random(1).randbytes(1 << 20)  # what bodies are made of: it does not compress


class Loader:
    """One connection that puts `count` jobs into `tube`. The id of job n is `ids[n]`."""

    def __init__(self, port, tube, count):
        self.tube = tube
        self.count = count
        self.put = 0
        self.answered = 0
        self.ids = array.array("Q")
        self.output = b""
        self.rest = b""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.sendall(b"use %s\r\n" % tube.encode())
        while not self.rest.endswith(b"\r\n"):
            self.rest += self.socket.recv(100)
        self.rest = b""
        self.socket.setblocking(False)

    @staticmethod
    def body(tube, number):
        head = b"%s:%d:" % (tube.encode(), number)
        at = number * 211 % (len(NOISE) - BODY)
        return head + NOISE[at : at + BODY - len(head)]

    def make(self):
        end = min(self.put + CHUNK, self.count)
        self.output = b"".join(b"put %d %d 60 %d\r\n%s\r\n" % (
            number % 1024, DELAY, BODY, self.body(self.tube, number))
            for number in range(self.put, end))
        self.put = end

    def write(self):
        if not self.output and self.put < self.count and \
                self.put - self.answered < MAX_UNANSWERED:
            self.make()
        if self.output:
            try:
                self.output = self.output[self.socket.send(self.output):]
            except BlockingIOError:
                pass

    def read(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise Gone("end of file")
        lines = (self.rest + data).split(b"\r\n")
        self.rest = lines.pop()
        for line in lines:
            if not line.startswith(b"INSERTED "):
                raise RuntimeError(f"a put was answered {line.decode()}")
            self.ids.append(int(line[9:]))
        self.answered += len(lines)

    def wants_to_write(self):
        return bool(self.output) or (self.put < self.count and
                                     self.put - self.answered < MAX_UNANSWERED)


class FarJobs:
    def __init__(self, args, folder, checks):
        self.args = args
        self.random = random.Random(args.seed)
        self.check = checks.that
        self.server = Server(args.server, folder / "store", args.server_args.split())
        self.most_memory = 0

    def look_at_memory(self):
        """Before the process ends."""
        self.most_memory = max(self.most_memory, self.server.memory("VmHWM"))

    def load(self):
        """Puts all jobs; returns the loaders."""
        share = self.args.jobs // self.args.tubes
        loaders = [Loader(self.server.port, f"far-{n}", share) for n in range(self.args.tubes)]
        selector = selectors.DefaultSelector()
        for loader in loaders:
            selector.register(loader.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, loader)
        start = last_answer = next_line = now()
        open_loaders = len(loaders)
        while open_loaders:
            for key, events in selector.select(1.0):
                loader = key.data
                if events & selectors.EVENT_READ:
                    loader.read()
                    last_answer = now()
                if events & selectors.EVENT_WRITE:
                    loader.write()
                if loader.answered == loader.count:
                    selector.unregister(loader.socket)
                    open_loaders -= 1
                    continue
                wanted = selectors.EVENT_READ | (
                    selectors.EVENT_WRITE if loader.wants_to_write() else 0)
                if wanted != key.events:
                    selector.modify(loader.socket, wanted, loader)
            if now() > last_answer + PATIENCE:
                raise TimeoutError(f"no put was answered for {PATIENCE:.0f} s")
            if self.args.jobs >= 1_000_000 and now() > next_line:
                next_line = now() + 10.0
                print(f"  {sum(loader.answered for loader in loaders):,} jobs, "
                      f"{now() - start:.0f} s, {self.server.memory() // MB} MB", file=sys.stderr,
                      flush=True)
        for loader in loaders:
            loader.socket.close()
        seconds, count = now() - start, share * len(loaders)
        print(f"  {count:,} jobs put in {seconds:.1f} s, {count / seconds:,.0f} a second",
              flush=True)
        return loaders

    def disk(self):
        return sum(path.stat().st_size for path in self.server.data.rglob("*") if path.is_file())

    def start(self, when):
        """The time until the first request is served, from the start of the process."""
        begin = now()
        self.server.launch()
        while True:
            try:
                with self.server.client() as client:
                    client.ask("use far-0")
                    client.send(b"put 0 0 60 1\r\nx\r\n")
                    put = client.reply()
                    seconds = now() - begin
                    client.ask(f"delete {put.id}")
                break
            except Gone:
                if not self.server.is_running() or now() > begin + PATIENCE:
                    raise
                time.sleep(0.002)
        limit = MAX_START * max(1.0, os.getloadavg()[0] / os.cpu_count())
        self.check(seconds < limit, f"{when}: the first put is answered {seconds:.2f} s after the "
                   f"start (limit {limit:.0f} s), with {self.server.memory() // MB} MB")

    def check_jobs(self, when, loaders, deleted):
        """Counts, and looks at and deletes some at random."""
        with self.server.client() as client:
            counts = [int(client.ask(f"stats-tube {loader.tube}").yaml()["current-jobs-delayed"])
                      for loader in loaders]
            expected = [loader.count - len(deleted[loader.tube]) for loader in loaders]
            self.check(counts == expected, f"{when}: stats-tube counts {sum(counts):,} jobs "
                       f"delayed, expected are {sum(expected):,}")
            found, right, gone, took = 0, 0, 0, []
            for loader in loaders:
                for number in self.random.sample(range(loader.count), 25):
                    job_id = loader.ids[number]
                    asked = now()
                    reply = client.ask(f"peek {job_id}")
                    took.append(now() - asked)
                    if job_id in deleted[loader.tube]:
                        gone += reply.word == "NOT_FOUND"
                        found += 1
                        right += 1
                        continue
                    found += 1
                    left = int(client.ask(f"stats-job {job_id}").yaml()["time-left"])
                    right += reply.word == "FOUND" and 0 < left <= DELAY and \
                        reply.body == loader.body(loader.tube, number)
                    gone += client.ask(f"delete {job_id}").word == "DELETED" and \
                        client.ask(f"peek {job_id}").word == "NOT_FOUND"
                    deleted[loader.tube].add(job_id)
            self.check(found == right == gone, f"{when}: {found} jobs at random: {right} are what "
                       f"was put, {gone} can be deleted; a peek takes "
                       f"{sorted(took)[len(took) // 2] * 1000:.2f} ms, "
                       f"{max(took) * 1000:.1f} ms at worst")

    def take_a_ready_one(self):
        """Median seconds of a put, a reserve and a delete."""
        took = []
        with self.server.client() as client:
            client.ask("use ready")
            client.ask("watch ready")
            for _ in range(200):
                asked = now()
                client.send(b"put 0 0 60 1\r\nx\r\n")
                put = client.reply().id
                if client.ask("reserve-with-timeout 5").id != put:
                    raise RuntimeError(f"{put} was put, and another came")
                client.ask(f"delete {put}")
                took.append(now() - asked)
        return sorted(took)[len(took) // 2]

    def run(self):
        self.server.start()
        empty = self.server.memory()
        alone = self.take_a_ready_one()
        loaders = self.load()
        deleted = {loader.tube: set() for loader in loaders}
        seen = bytearray(1 + max(max(loader.ids) for loader in loaders))
        for loader in loaders:
            for job_id in loader.ids:
                seen[job_id] = 1
        self.check(sum(seen) == sum(loader.count for loader in loaders),
                   "every job has an id of its own")
        del seen
        beside = self.take_a_ready_one()
        self.check(beside < 3 * alone + 0.005, f"F5: to put, take and delete a ready job takes "
                   f"{beside * 1000:.2f} ms, with no job there {alone * 1000:.2f} ms")
        self.look_at_memory()
        self.check(self.most_memory < MAX_MEMORY,
                   f"the server takes {self.most_memory // MB} MB at most, {empty // MB} MB when "
                   f"empty; on disk are {self.disk() // MB:,} MB")
        self.server.kill()
        self.start("after kill -9")
        self.check_jobs("after kill -9", loaders, deleted)
        self.look_at_memory()
        status = self.server.terminate()
        self.check(status == 0, f"SIGTERM: exit status {status}")
        self.start("after SIGTERM")
        self.check_jobs("after SIGTERM", loaders, deleted)
        self.look_at_memory()
        self.check(self.most_memory < MAX_MEMORY, f"the server has taken "
                   f"{self.most_memory // MB} MB at most; on disk are {self.disk() // MB:,} MB")
        self.server.kill()


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=200_000, help="how many [200000]")
    parser.add_argument("--tubes", type=int, default=4, help="and connections [4]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    return run_test("far", args, FarJobs)


if __name__ == "__main__":
    sys.exit(main())
