#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of the newest log file is torn, as a power cut or a bad disk may leave it.

Jobs are put one at a time, each acknowledged, and the server is killed. Then garbage or zeros are
appended to the newest log, or bytes are cut off it.

    appended   What a crash leaves behind the last acknowledged write: the server starts and has
               every job.
    cut off    Acknowledged writes are missing: that is damage, not a crash. The server does not
               start, exits with 3 and says what is missing, as often as it is tried. With
               --accept-loss it starts with what is left: of the jobs, in the order of their puts,
               only a tail is missing, no longer than what was cut. The next start needs no flag.

What is left has its body, and what is put and deleted afterwards survives the next kills.
"""

import concurrent.futures
import pathlib
import random
import re
import sys

from beanstalk import Checks, Folder, Server, Unexpected, argument_parser, parse, put_command

BODY = 150  # a write is about 250 bytes of log
DAMAGED = 3  # exit status

# name: (bytes cut off, bytes appended); appended: r random, z zeros. What is cut off is more than
# one write: of the very last one the server may not have noted yet that it was acknowledged.
CASES = {
    "200 bytes of garbage appended": (0, "r200"),
    "70,000 bytes of garbage appended": (0, "r70000"),
    "4,096 zeros appended": (0, "z4096"),
    "cut 300 bytes": (300, ""),
    "cut 300 bytes, 200 of garbage": (300, "r200"),
    "cut 9,000 bytes": (9000, ""),
    "cut 9,000 bytes, zeros in their place": (9000, "z9000"),
    "cut 9,000 bytes, garbage in their place": (9000, "r9000"),
}


def newest_log(data):
    """RocksDB's 000012.log, beanstalkd's binlog.7, the journal of lying_server.py."""
    logs = [path for path in pathlib.Path(data).rglob("*")
            if re.fullmatch(r"\d+\.log|binlog\.\d+|journal", path.name) and path.stat().st_size]
    if not logs:
        raise RuntimeError(f"no log file under {data}")
    return max(logs, key=lambda path: int((re.findall(r"\d+", path.name) or ["0"])[0]))


def tear(path, cut, append, generator):
    """Returns the size of what was written."""
    size = path.stat().st_size
    if path.name != "journal":
        size = len(path.read_bytes().rstrip(b"\0"))  # the rest is filled ahead for what may come
    count = int(append[1:] or 0)
    tail = generator.randbytes(count) if append.startswith("r") else bytes(count)
    with open(path, "r+b") as file:
        file.truncate(max(0, size - cut))
        file.seek(0, 2)
        file.write(tail)
    return size


class TornLog:
    def __init__(self, args, folder, name, checks):
        self.args = args
        self.name = name
        self.failed = False
        self.random = random.Random(args.seed)
        self.server = Server(args.server, folder, args.server_args.split())
        self.checks = checks

    def check(self, condition, what):
        self.failed |= not self.checks.that(condition, f"{self.name}: {what}")

    def put(self, count):
        """Puts jobs one at a time; returns {id: body} in the order of the puts."""
        put = {}
        with self.server.client() as client:
            for _ in range(count):
                body = self.random.randbytes(BODY)
                client.send(put_command(body, delay=self.random.choice([0, 3600])))
                put[client.reply().id] = body
        return put

    def survivors(self, put):
        with self.server.client() as client:
            replies = client.ask_all([f"peek {job_id}" for job_id in put])
        for reply in replies:
            if reply.word not in ("FOUND", "NOT_FOUND"):
                raise Unexpected(f"peek was answered {reply}")
        right = all(reply.word == "NOT_FOUND" or reply.body == body
                    for reply, body in zip(replies, put.values()))
        return [job_id for job_id, reply in zip(put, replies) if reply.word == "FOUND"], right

    def start_after_damage(self):
        """It does not start, twice; with --accept-loss it does."""
        for attempt in ("does not start", "nor when it is tried again"):
            try:
                self.server.start()
                self.server.kill()
            except RuntimeError:
                pass  # as it should
            status = self.server.process.returncode
            said = self.server.log.read_text().splitlines()[-1]
            self.check(status == DAMAGED and "is damaged or not whole: write" in said,
                       f"{attempt}, exit status {status}: {said.rpartition(': ')[2]}")
        arguments = list(self.server.arguments)
        self.server.arguments.append("--accept-loss")
        self.server.start()
        self.check("the loss is accepted as asked" in self.server.log_tail(),
                   "--accept-loss starts, and says so")
        self.server.arguments = arguments

    def run(self):
        cut, append = CASES[self.name]
        self.server.start()
        put = self.put(self.args.jobs)
        self.server.kill()
        log = newest_log(self.server.data)
        size = tear(log, cut, append, self.random)
        if cut and not self.args.silent:
            self.start_after_damage()
        else:
            self.server.start()
        self.check_what_is_left(put, 0 if cut == 0 else 1 + min(cut, size) // BODY,
                                f"in {log.name}, {size} bytes")

    def check_what_is_left(self, put, may_miss, where):
        ids = list(put)
        left, right = self.survivors(put)
        self.check(left == ids[: len(left)] and right and len(put) - len(left) <= may_miss,
                   f"{len(left)} of {len(put)} jobs left, {may_miss} may be missing ({where})")

        # What was torn must not hide what is written after it.
        put = {job_id: put[job_id] for job_id in left}
        new = self.put(50)
        told = left if self.args.silent else ids  # what it has not noticed it cannot know
        self.check(not set(new) & set(told), "new jobs have new ids")
        put.update(new)
        gone = self.random.sample(sorted(put), 20)
        with self.server.client() as client:
            answers = {reply.word for reply in client.ask_all([f"delete {i}" for i in gone])}
        put = {job_id: body for job_id, body in put.items() if job_id not in gone}
        for number in (1, 2):
            self.server.kill()
            self.server.start()
            left, right = self.survivors(put)
            back, _ = self.survivors(dict.fromkeys(gone))
            self.check(answers == {"DELETED"} and left == list(put) and right and not back,
                       f"restart {number} after that, without a flag: {len(left)} of {len(put)} "
                       f"are there, {len(back)} of {len(gone)} deletes undone")
        self.server.kill()


def run(test):
    try:
        test.run()
    except Exception as error:  # the other cases go on
        test.check(False, f"the server is there and answers: {error!r}")
    finally:
        test.server.kill()
        if test.failed:
            print(test.server.log_tail())


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=200, help="jobs in the log [200]")
    parser.add_argument("--case", choices=sorted(CASES), help="only this one [all]")
    parser.add_argument("--at-once", type=int, default=4, help="how many of them at a time [4]")
    parser.add_argument("--silent", action="store_true",
                        help="expect a server that starts with a loss and does not notice")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    checks = Checks()
    with Folder("torn", args.keep) as folder:
        with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
            for number, name in enumerate([args.case] if args.case else CASES):
                pool.submit(run, TornLog(args, folder / str(number), name, checks))
        return checks.status()


if __name__ == "__main__":
    sys.exit(main())
