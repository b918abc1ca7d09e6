#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that are many, slow, impolite or gone harm neither the jobs nor the other clients."""

import random
import selectors
import socket
import struct
import sys
import time

from beanstalk import PATIENCE, Client, Gone, Server, argument_parser, now, parse, put_command, \
    run_test

MIB = 1 << 20
SOON = 10.0  # seconds; what takes longer is a client that waits for another one's fault


def vanish(client):
    """Closes with a reset, as a crashed machine's neighbour would see it."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


class Clients:
    def __init__(self, args, folder, checks):
        self.random = random.Random(args.seed)
        self.many = args.connections
        self.server = Server(args.server, folder / "store", args.server_args.split())
        self.check = checks.that

    def put(self, tube, body, **options):
        with self.server.client() as client:
            client.ask(f"use {tube}")
            client.send(put_command(body, **options))
            return client.reply().id

    def reserve(self, tube, patience=SOON):
        """The next job of `tube`, deleted at once; None if there is none within `patience`."""
        with self.server.client() as client:
            client.ask(f"watch {tube}")
            until = now() + patience
            while now() < until:
                reply = client.ask("reserve-with-timeout 0")
                if reply.word == "RESERVED":
                    client.ask(f"delete {reply.id}")
                    return reply.id
                time.sleep(0.01)
        return None

    def settles_at(self, descriptors, patience=SOON):
        """Whether the server comes back to so few descriptors (a store may keep a few more)."""
        until = now() + patience
        while self.server.descriptors() > descriptors + 16 and now() < until:
            time.sleep(0.05)
        return self.server.descriptors() <= descriptors + 16

    # -- many

    def thousand_waiting_workers(self):
        before, memory = self.server.descriptors(), self.server.memory()
        workers = [self.server.client() for _ in range(self.many)]
        for worker in workers:
            worker.send("watch many\r\nreserve-with-timeout 30\r\n")
        for worker in workers:
            worker.reply()
        grown = self.server.memory() - memory
        self.check(grown < self.many * 64 * 1024,
                   f"{self.many} waiting connections take {grown // self.many // 1024} KiB each")
        start = now()
        with self.server.client() as client:
            client.ask("use many")
            client.send(b"".join(put_command(b"%d" % n) for n in range(self.many)))
            put = {client.reply().id for _ in range(self.many)}
        got = []
        for worker in workers:
            reply = worker.reply()
            if reply.word == "RESERVED":
                got.append(reply.id)
                worker.send(f"delete {reply.id}\r\n")
        deleted = sum(worker.reply().word == "DELETED" for worker in workers[: len(got)])
        self.check(len(got) == len(set(got)) == deleted == self.many and set(got) == put,
                   f"{self.many} waiting workers got one job each, {len(set(got))} different, "
                   f"in {now() - start:.2f} s")
        for worker in workers:
            worker.close()
        self.check(self.settles_at(before), f"closed: {self.server.descriptors()} descriptors "
                   f"after, {before} before")

    def connection_storm(self):
        before = self.server.descriptors()
        start = now()
        for number in range(2 * self.many):
            client = self.server.client()
            if number % 3 == 0:
                client.ask("stats")
            if number % 2:
                vanish(client)
            else:
                client.close()
        self.check(self.settles_at(before), f"{2 * self.many} connections opened and closed in "
                   f"{now() - start:.1f} s: {self.server.descriptors()} descriptors after, "
                   f"{before} before")

    # -- gone

    def vanished_worker_gives_its_job_back(self):
        for how, end in (("closes", Client.close), ("is reset", vanish)):
            job = self.put("gone", b"x")
            worker = self.server.client()
            worker.ask("watch gone")
            held = worker.ask("reserve-with-timeout 5")
            self.check(held.word == "RESERVED" and self.reserve("gone", 0.2) is None,
                       "a reserved job goes to nobody else")
            end(worker)
            start = now()
            self.check(self.reserve("gone") == job,
                       f"a worker {how}: its job comes to another in {now() - start:.3f} s")

    def vanished_waiting_worker_swallows_no_job(self):
        for how, end in (("closes", Client.close), ("is reset", vanish)):
            workers = [self.server.client() for _ in range(20)]
            for worker in workers:
                worker.ask("watch waiting")
                worker.send("reserve\r\n")
            for worker in workers:
                end(worker)
            jobs = [self.put("waiting", b"x") for _ in range(20)]
            got = [self.reserve("waiting") for _ in jobs]
            self.check(sorted(filter(None, got)) == jobs,
                       f"20 waiting workers, each {how}: all 20 jobs come to others")

    def half_closed_worker(self):
        with self.server.client() as worker:
            worker.ask("watch half")
            worker.send("reserve-with-timeout 30\r\n")
            worker.socket.shutdown(socket.SHUT_WR)
            start = now()
            worker.socket.settimeout(2 * SOON)
            answer = "nothing"
            try:
                answer = worker.reply().word
                worker.reply()
                ended = False
            except Gone:
                ended = True
            except TimeoutError:
                ended = False
            self.check(answer == "TIMED_OUT" and ended and now() - start < SOON,
                       f"a half-closed waiting worker gets {answer} and the end, in "
                       f"{now() - start:.2f} s")

    def vanished_in_the_middle_of_a_put(self):
        for size in (0, 10, 99, 100, 101):  # 100 is the body without its CRLF
            client = self.server.client()
            client.ask("use cut")
            client.send(b"put 0 0 60 100\r\n" + b"x" * min(size, 100) + b"\r" * (size > 100))
            time.sleep(0.02)
            vanish(client)
        self.check(self.reserve("cut", 0.3) is None, "puts cut off in their body leave no job")

    def vanished_with_answers_outstanding(self):
        """Puts sent, the client gone before the answers: each job is there whole or not at all."""
        bodies = [b"%04d" % number * 50 for number in range(500)]
        client = self.server.client()
        client.ask("use impolite")
        client.send(b"".join(put_command(body) for body in bodies))
        vanish(client)
        found = []
        with self.server.client() as worker:
            worker.ask("watch impolite")
            quiet_until = now() + 0.5
            while now() < quiet_until:
                reply = worker.ask("reserve-with-timeout 0")
                if reply.word == "RESERVED":
                    found.append(reply.body)
                    worker.ask(f"delete {reply.id}")
                    quiet_until = now() + 0.5
        self.check(found == bodies[: len(found)], f"of 500 puts of a client that vanished "
                   f"{len(found)} were done: the first ones, whole and in order")

    # -- slow

    def slow_writers(self):
        """Fifty clients put a byte at a time; another client is not held up."""
        count = 50
        clients = [self.server.client() for _ in range(count)]
        data = [put_command(b"slow %d " % n + self.random.randbytes(40)) for n in range(count)]
        worst = 0.0
        with self.server.client() as other:
            for at in range(max(map(len, data))):
                for client, text in zip(clients, data):
                    client.send(text[at : at + 1])
                if at % 4 == 0:
                    start = now()
                    other.send(put_command(b"quick"))
                    other.reply()
                    worst = max(worst, now() - start)
        answers = [client.reply() for client in clients]
        ids = [answer.id for answer in answers if answer.word == "INSERTED"]
        with self.server.client() as client:
            bodies = [client.ask(f"peek {job_id}").body for job_id in ids]
        whole = bodies == [text.split(b"\r\n", 1)[1][:-2] for text in data]
        for client in clients:
            client.close()
        self.check(whole and worst < SOON, f"{count} puts byte by byte arrive whole; meanwhile "
                   f"another client's put took {worst * 1000:.0f} ms at worst")

    def reader_that_does_not_read(self):
        """Asks for 600 MB and reads nothing: the server must stop, not store it."""
        job = self.put("big", self.random.randbytes(60000))
        memory = self.server.memory()
        client = self.server.client()
        client.socket.setblocking(False)
        asked = 0
        commands = b"peek %d\r\n" % job * 100
        until = now() + 2.0
        selector = selectors.DefaultSelector()
        selector.register(client.socket, selectors.EVENT_WRITE)
        worst = 0.0
        with self.server.client() as other:
            while now() < until and asked < 10000 * len(commands) // 100:
                if selector.select(0):
                    asked += client.socket.send(commands[asked % len(commands):])
                start = now()
                other.ask("stats")
                worst = max(worst, now() - start)
        grown = self.server.memory() - memory
        self.check(grown < 64 * MIB and worst < SOON,
                   f"{asked // (len(commands) // 100)} peeks of 60 kB asked, none read: the server "
                   f"grew by {grown // MIB} MiB, and another client waited {worst * 1000:.0f} ms "
                   "at worst")
        client.socket.settimeout(PATIENCE)
        body = client.reply().body
        right = all(client.reply().body == body for _ in range(200))
        self.check(right and len(body) == 60000, "and when it reads, the answers are right")
        vanish(client)

    def deep_pipeline(self):
        count = 50_000
        memory = self.server.memory()
        with self.server.client() as client:
            client.ask("use deep")
            start = now()
            for at in range(0, count, 1000):
                client.send(b"".join(put_command(b"%0200d" % n, delay=3600)
                                     for n in range(at, at + 1000)))
            ids = [client.reply().id for _ in range(count)]
            seconds = now() - start
        self.check(ids == sorted(set(ids)), f"{count} puts sent before the first answer was read: "
                   f"answered in order in {seconds:.1f} s, "
                   f"{(self.server.memory() - memory) // MIB} MiB more")

    def run(self):
        self.server.start()
        self.thousand_waiting_workers()
        self.connection_storm()
        self.vanished_worker_gives_its_job_back()
        self.vanished_waiting_worker_swallows_no_job()
        self.half_closed_worker()
        self.vanished_in_the_middle_of_a_put()
        self.vanished_with_answers_outstanding()
        self.slow_writers()
        self.reader_that_does_not_read()
        self.deep_pipeline()


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--connections", type=int, default=1000, help="how many is many [1000]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    return run_test("clients", args, Clients)


if __name__ == "__main__":
    sys.exit(main())
