#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The end of the newest log file is torn, as a power cut may leave it.

Jobs are put one at a time, each acknowledged, and the server is killed. Then bytes are cut off the
newest log, or garbage or zeros are appended. The server must start; of the jobs, in the order of
their puts, only a tail may be missing, no longer than what was cut; what is left has its body; and
what is put and deleted afterwards survives the next kill.
"""

import pathlib
import random
import re
import sys

from beanstalk import Checks, Folder, Gone, Server, argument_parser, parse, put_command

BODY = 150

# name: (bytes cut off, bytes appended); appended: r random, z zeros
CASES = {
    "cut 3 bytes": (3, ""),
    "cut 40 bytes, 200 of garbage": (40, "r200"),
    "200 bytes of garbage appended": (0, "r200"),
    "70,000 bytes of garbage appended": (0, "r70000"),
    "4,096 zeros appended": (0, "z4096"),
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
    """Returns the size of what was written in the file, without preallocated zeros at its end."""
    content = path.read_bytes()
    size = len(content.rstrip(b"\0"))
    count = int(append[1:] or 0)
    tail = generator.randbytes(count) if append.startswith("r") else bytes(count)
    with open(path, "r+b") as file:
        file.truncate(max(0, size - cut))
        file.seek(0, 2)
        file.write(tail)
    return size


class TornLog:
    def __init__(self, args, folder, checks):
        self.random = random.Random(args.seed)
        self.jobs = args.jobs
        self.server = Server(args.server, folder, args.server_args.split())
        self.checks = checks

    def put(self, count):
        """Puts jobs one at a time; returns {id: body} in the order of the puts."""
        put = {}
        with self.server.client() as client:
            for _ in range(count):
                body = self.random.randbytes(BODY - 1) + b"."
                client.send(put_command(body, delay=self.random.choice([0, 3600])))
                reply = client.reply()
                if reply.word != "INSERTED":
                    raise RuntimeError(f"put was answered {reply}")
                put[reply.id] = body
        return put

    def survivors(self, put):
        with self.server.client() as client:
            replies = client.ask_all([f"peek {job_id}" for job_id in put])
        right = all(reply.word == "NOT_FOUND" or reply.body == body
                    for reply, body in zip(replies, put.values()))
        return [job_id for job_id, reply in zip(put, replies) if reply.word == "FOUND"], right

    def run(self, name):
        cut, append = CASES[name]
        self.server.start()
        put = self.put(self.jobs)
        self.server.kill()
        log = newest_log(self.server.data)
        size = tear(log, cut, append, self.random)
        self.server.start()

        ids = list(put)
        left, right = self.survivors(put)
        may_miss = 0 if cut == 0 else 1 + min(cut, size) // BODY
        missing = len(put) - len(left)
        self.checks.that(left == ids[: len(left)] and right and missing <= may_miss,
                         f"{name}: {len(left)} of {len(put)} left, {may_miss} may be missing "
                         f"(in {log.name}, {size} bytes)")

        # The log that was torn must not hide what is written after it.
        put = {job_id: put[job_id] for job_id in left}
        new = self.put(50)
        self.checks.that(not set(new) & set(left), f"{name}: new jobs have new ids")
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
            self.checks.that(answers == {"DELETED"} and left == list(put) and right and not back,
                             f"{name}: restart {number} after that: {len(left)} of {len(put)} are "
                             f"there, {len(back)} of {len(gone)} deletes undone")
        self.server.kill()


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--jobs", type=int, default=300, help="jobs in the log [300]")
    parser.add_argument("--case", choices=sorted(CASES), help="only this one [all]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    checks = Checks()
    with Folder("torn", args.keep) as folder:
        for number, name in enumerate([args.case] if args.case else CASES):
            test = TornLog(args, folder / str(number), checks)
            try:
                test.run(name)
            except (Gone, TimeoutError, RuntimeError) as error:
                checks.that(False, f"{name}: {error}")
            finally:
                test.server.kill()
        return checks.status()


if __name__ == "__main__":
    sys.exit(main())
