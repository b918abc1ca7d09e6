#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory ends: the process may die, what it acknowledged does not.

    address-space  RLIMIT_AS a little above what the server has (as `ulimit -v` sets it): memory
                   cannot be had, and whoever asks for it is told
    limit          --max-jobs-in-memory: puts are refused before that

In both a load of ready jobs goes on until the server refuses or is gone; then it is started without
the limit, and every job that was acknowledged is there.
"""

import collections
import json
import pathlib
import resource
import subprocess
import sys

from beanstalk import PATIENCE, Checks, Folder, Gone, Server, argument_parser, parse, put_command

MIB = 1 << 20
BATCH = 500


def load(server, most):
    """Puts until refused, gone, or `most`. Returns (acknowledged, other answers)."""
    jobs, others = {}, collections.Counter()
    try:
        with server.client() as client:
            while len(jobs) < most and not others:
                bodies = [b"%d" % (len(jobs) + i) for i in range(BATCH)]
                client.send(b"".join(put_command(body) for body in bodies))
                for body in bodies:
                    reply = client.reply()
                    if reply.word == "INSERTED":
                        jobs[reply.id] = body
                    else:
                        others[reply.word] += 1
    except Gone:
        others["gone"] += 1
    return jobs, others


def check_all_there(checks, name, server, jobs):
    done = subprocess.run([server.program, "check", server.data, "--json"], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    report = json.loads(done.stdout) if done.stdout else {}
    checks.that(report.get("sound"), f"{name}: the folder that is left is sound {done.stderr}")
    checks.that(report.get("ready", 0) >= len(jobs),
                f"{name}: {len(jobs)} jobs were acknowledged, {report.get('ready')} are there")
    server.arguments = []
    server.start()
    with server.client() as client:
        sample = sorted(jobs)[::max(1, len(jobs) // 5000)]
        replies = client.ask_all([f"peek {job}" for job in sample])
        wrong = [job for job, reply in zip(sample, replies) if reply.body != jobs[job]]
        checks.that(not wrong, f"{name}: {len(sample)} of them looked at, {len(wrong)} wrong")
    checks.that(server.terminate() == 0, f"{name}: started again, and stopped")


def address_space(args, folder, checks):
    server = Server(args.server, folder / "address-space", ["--max-unanswered-size", "1MiB"])
    server.start()
    limit = server.memory("VmSize") + args.megabytes * MIB
    resource.prlimit(server.pid, resource.RLIMIT_AS, (limit, limit))
    jobs, others = load(server, 20_000_000)
    checks.that(jobs and others, f"address-space: {args.megabytes} MiB more than at the start: "
                f"{len(jobs)} jobs, then {dict(others)}")
    if others["gone"]:
        status = server.process.wait(PATIENCE)
        checks.that(status != 0, f"address-space: it ended with {status}")
    server.kill()
    print(server.log_tail())
    check_all_there(checks, "address-space", server, jobs)


def limit(args, folder, checks):
    server = Server(args.server, folder / "limit", ["--max-jobs-in-memory", "20000"])
    server.start()
    jobs, others = load(server, 1_000_000)
    checks.that(len(jobs) == 20_000 and set(others) == {"OUT_OF_MEMORY"},
                f"limit: {len(jobs)} jobs are taken, then {dict(others)}")
    server.kill()
    check_all_there(checks, "limit", server, jobs)


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=24, help="until the end [24]")
    args = parse(parser)
    checks = Checks()
    with Folder("memory", args.keep) as folder:
        for scenario in (limit, address_space):
            scenario(args, pathlib.Path(folder), checks)
        return checks.status()


if __name__ == "__main__":
    sys.exit(main())
