#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scenario E5: jobs are reserved and released with a delay, for hours, and one old job is never
touched: the folder stays bounded by what lives, though many times as much is written.

beanstalkd kept each log file as long as one job in it lived.
"""

import pathlib
import sys
import time

from beanstalk import Server, argument_parser, now, parse, put_command, run_test

MIB = 1 << 20
BODY = b"x" * 200
# The log, memtables of it on their way to files, files on their way to be merged.
LIMITS = ["--max-log-size", "1MiB", "--memtable-size", "1MiB", "--block-cache-size", "1MiB"]
MAX_FOLDER = 12 * MIB
TIMES = 2  # So many times MAX_FOLDER is written, at least, or the test would say nothing.


class Churn:
    def __init__(self, args, folder, checks):
        self.args, self.check = args, checks.that
        self.server = Server(args.server, folder / "store", LIMITS + args.server_args.split())

    def written(self):
        """Bytes, since the process began."""
        counts = pathlib.Path(f"/proc/{self.server.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in counts if line.startswith("write_bytes"))

    def folder(self):
        total = 0
        for path in self.server.data.rglob("*"):
            try:
                total += path.stat().st_blocks * 512
            except FileNotFoundError:
                pass  # It has just been merged into another.
        return total

    def run(self):
        self.server.start()
        client = self.server.client()
        client.ask("use old")
        client.send(put_command(b"never touched", delay=10**6))
        old = client.reply().id
        client.ask("use churn")
        client.ask("watch churn")
        client.send(b"".join(put_command(BODY) for _ in range(self.args.jobs)))
        ids = {client.reply().id for _ in range(self.args.jobs)}
        releases, most, begun = 0, 0, now()
        while now() < begun + self.args.seconds or self.written() < TIMES * MAX_FOLDER:
            if now() > begun + self.args.seconds + 120:
                break
            releases += self.turn(client, releases)
            most = max(most, self.folder())
        live = self.args.jobs * len(BODY)
        self.check(self.written() >= TIMES * MAX_FOLDER and most < MAX_FOLDER,
                   f"E5: {releases:,} releases wrote {self.written() // MIB} MiB; the folder had "
                   f"{most / MIB:.1f} MiB at most, for {live / MIB:.1f} MiB that live")
        self.server.kill()
        self.server.start()
        with self.server.client() as client:
            self.check(client.ask(f"peek {old}").body == b"never touched", "the old job is there")
            client.ask("watch churn")
            left, patience = set(ids), now() + 30
            while left and now() < patience:
                reply = client.ask("reserve-with-timeout 2")
                if reply.word == "RESERVED":
                    left.discard(reply.id)
                    client.ask(f"delete {reply.id}")
            self.check(not left, f"and all others, after kill -9 ({len(left)} are not)")
        self.check(self.server.terminate() == 0, "it ends cleanly")

    def turn(self, client, number):
        """Takes what is ready, and gives it back, most of it for a second."""
        client.send("reserve-with-timeout 0\r\n" * 200)
        found = [reply.id for reply in (client.reply() for _ in range(200))
                 if reply.word == "RESERVED"]
        client.send("".join(f"release {job_id} {number % 7} {job_id % 2}\r\n" for job_id in found))
        for _ in found:
            reply = client.reply()
            if reply.word != "RELEASED":
                raise RuntimeError(f"a release was answered {reply}")
        if not found:
            time.sleep(0.01)
        return len(found)


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=2000, help="how many [2000]")
    parser.add_argument("--seconds", type=float, default=5, help="how long, at least [5]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    return run_test("churn", args, Churn)


if __name__ == "__main__":
    sys.exit(main())
