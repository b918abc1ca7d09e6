#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk fills up: new work is refused with an error, nothing acknowledged is lost, and it heals.

1. Jobs are put on a tmpfs of a few megabytes until puts are refused. What was acknowledged can
   still be read; reserve and delete work or are refused, and lose nothing.
2. A ballast file is deleted: without a restart puts work again.
3. The disk fills up again and the server is killed. It starts on the full disk, still has all of
   it and delivers; after space is freed it takes new work.

Needs a mount namespace (root, or unprivileged user namespaces); without one it is skipped (77).
"""

import os
import pathlib
import random
import subprocess
import sys
import time

from beanstalk import SKIPPED, Checks, Folder, Gone, Server, argument_parser, now, parse, \
    put_command

MOUNTED = "CARILLON_FULL_DISK_NAMESPACE"
REFUSALS = {"OUT_OF_MEMORY", "INTERNAL_ERROR", "DRAINING"}
PIPELINE = 16


def enter_namespace():
    """Runs this program again where it may mount; the mount ends with it, however it ends."""
    if os.environ.get(MOUNTED):
        return
    unshare = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    can = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/mnt"], check=False,
                         capture_output=True, text=True)
    if can.returncode != 0:
        print(f"skipped: cannot mount a tmpfs: {can.stderr.strip()}")
        sys.exit(SKIPPED)
    os.environ[MOUNTED] = "1"
    os.execvp("unshare", [*unshare, "--kill-child", sys.executable, *sys.argv])


class Ledger:
    """What was acknowledged: id -> body; and what an error leaves open."""

    def __init__(self):
        self.jobs = {}
        self.deleted = set()
        self.uncertain = set()

    def missing(self, client):
        """Ids of acknowledged jobs that are not there, or have another body."""
        ids = sorted(set(self.jobs) - self.uncertain)
        replies = client.ask_all([f"peek {job_id}" for job_id in ids], depth=50)
        return [job_id for job_id, reply in zip(ids, replies)
                if reply.word != "FOUND" or reply.body != self.jobs[job_id]]

    def returned(self, client):
        ids = sorted(self.deleted)
        replies = client.ask_all([f"peek {job_id}" for job_id in ids])
        return [job_id for job_id, reply in zip(ids, replies) if reply.word == "FOUND"]


class FullDisk:
    def __init__(self, args, folder):
        self.args = args
        self.random = random.Random(args.seed)
        self.checks = Checks()
        self.ledger = Ledger()
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={args.megabytes}m", "none", self.disk],
                       check=True)
        self.ballasts = 0
        self.server = Server(args.server, self.disk, args.server_args.split())

    def free(self):
        stat = os.statvfs(self.disk)
        return stat.f_bavail * stat.f_frsize

    def add_ballast(self, size):
        self.ballasts += 1
        path = self.disk / f"ballast-{self.ballasts}"
        with open(path, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        return path

    def fill(self):
        """Puts jobs until 5 batches running are refused whole. Returns (accepted, refusals)."""
        accepted, refusals, running = 0, {}, 0
        limit = self.args.megabytes * 1024 // 4 * 4  # four times what would fit
        with self.server.client() as client:
            client.ask("use far")
            while running < 5 and accepted < limit:
                bodies = [self.random.randbytes(4000) for _ in range(PIPELINE)]
                client.send(b"".join(put_command(body, delay=3600) for body in bodies))
                running += 1
                for body in bodies:
                    reply = client.reply()
                    if reply.word == "INSERTED":
                        self.ledger.jobs[reply.id] = body
                        accepted += 1
                        running = 0
                    else:
                        refusals[str(reply)] = refusals.get(str(reply), 0) + 1
        return accepted, refusals

    def put_ready(self, count):
        with self.server.client() as client:
            client.ask("use near")
            for _ in range(count):
                body = self.random.randbytes(100)
                client.send(put_command(body))
                self.ledger.jobs[client.reply().id] = body

    def take(self, count):
        """Reserves and deletes ready jobs. Returns the answers, counted."""
        answers = {}
        with self.server.client() as client:
            client.ask("watch near")
            for _ in range(count):
                reply = client.ask("reserve-with-timeout 0")
                if reply.word == "RESERVED":
                    right = self.ledger.jobs.get(reply.id) == reply.body
                    answers["RESERVED" if right else "wrong body"] = \
                        answers.get("RESERVED" if right else "wrong body", 0) + 1
                    job_id, reply = reply.id, client.ask(f"delete {reply.id}")
                    if reply.word == "DELETED":
                        self.ledger.deleted.add(job_id)
                        self.ledger.jobs.pop(job_id, None)
                    else:
                        self.ledger.uncertain.add(job_id)
                answers[reply.word] = answers.get(reply.word, 0) + 1
        return answers

    def check_refusal(self, what):
        start = now()
        accepted, refusals = self.fill()
        self.checks.that(accepted > 0 and refusals and
                         {words.split(" ")[0] for words in refusals} <= REFUSALS,
                         f"{what}: {accepted} puts accepted, then refused: {refusals} "
                         f"({now() - start:.1f} s, {self.free() // 1024} KiB free)")

    def check_all_there(self, when):
        with self.server.client() as client:
            missing, returned = self.ledger.missing(client), self.ledger.returned(client)
            total = sum(int(client.ask(f"stats-tube {tube}").yaml().get("current-jobs-" + state, 0))
                        for tube in ("near", "far") for state in ("ready", "reserved", "delayed"))
        extra = total - len(self.ledger.jobs)
        if extra > 0:  # not wrong: an error leaves it open
            print(f"  note    {when}: {extra} jobs are there whose put was refused")
        self.checks.that(not missing, f"{when}: {len(self.ledger.jobs)} acknowledged jobs are "
                         f"there ({len(missing)} missing: {missing[:5]})")
        self.checks.that(not returned, f"{when}: {len(self.ledger.deleted)} acknowledged deletes "
                         f"stay so ({len(returned)} came back)")

    def check_take(self, when, may_refuse):
        answers = self.take(20)
        bad = set(answers) - {"RESERVED", "DELETED"} - (REFUSALS if may_refuse else set())
        self.checks.that(not bad, f"{when}: reserve and delete of ready jobs: {answers}")

    def check_healing(self, ballast, when):
        ballast.unlink()
        start = now()
        reply = None
        with self.server.client() as client:
            client.ask("use far")
            while now() < start + 20 and (reply is None or reply.word != "INSERTED"):
                body = self.random.randbytes(4000)
                client.send(put_command(body, delay=3600))
                reply = client.reply()
                if reply.word == "INSERTED":
                    self.ledger.jobs[reply.id] = body
                else:
                    time.sleep(0.05)
        self.checks.that(reply.word == "INSERTED", f"{when}: put answers {reply.word} "
                         f"{now() - start:.2f} s after space was freed")

    def run(self):
        ballast = self.add_ballast(self.args.ballast * 1024 * 1024)
        self.server.start()
        self.put_ready(100)
        self.check_refusal("disk full")
        self.check_all_there("disk full")
        self.check_take("disk full", may_refuse=True)
        self.check_all_there("disk full, after that")
        self.check_healing(ballast, "no restart")
        self.check_take("healed", may_refuse=False)
        self.check_all_there("healed")
        self.server.kill()
        self.server.start()
        self.check_all_there("after kill -9")

        # Again, and this time it is killed while the disk is full.
        ballast = self.add_ballast(max(1 << 20, self.free() - (8 << 20)))
        self.check_refusal("disk full again")
        self.server.kill()
        print(f"  killed with {self.free() // 1024} KiB free")
        if self.start_on_full_disk():
            self.check_all_there("started on a full disk")
            self.check_take("started on a full disk", may_refuse=True)
            self.check_healing(ballast, "started on a full disk")
        else:
            ballast.unlink()
            self.server.start()
        self.check_all_there("space freed")
        status = self.server.terminate()
        self.checks.that(status == 0, f"SIGTERM: exit status {status}")
        self.server.start()
        self.check_all_there("after SIGTERM")
        self.check_take("after SIGTERM", may_refuse=False)
        self.server.kill()

    def start_on_full_disk(self):
        try:
            seconds = self.server.start()
        except RuntimeError as error:
            self.server.kill()
            self.checks.that(self.args.may_refuse_to_start, f"starts on a full disk: {error}")
            return False
        return self.checks.that(True, f"starts on a full disk, in {seconds:.2f} s")


def main():
    enter_namespace()
    parser = argument_parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=64, help="size of the disk [64]")
    parser.add_argument("--ballast", type=int, default=24, help="of it, freed later [24]")
    parser.add_argument("--may-refuse-to-start", action="store_true",
                        help="accept a server that does not start on a full disk")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    with Folder("full-disk", args.keep) as folder:
        test = FullDisk(args, pathlib.Path(folder))
        try:
            test.run()
        except (Gone, TimeoutError, RuntimeError) as error:
            test.checks.that(False, f"the server is there: {error!r}")
        finally:
            test.server.kill()
            if test.checks.failed:
                print(test.server.log_tail())
            subprocess.run(["umount", "--lazy", test.disk], check=False)
        return test.checks.status()


if __name__ == "__main__":
    sys.exit(main())
