#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The disk fills up: new work is refused with an error, nothing acknowledged is lost, and it heals.

    guard    Less is free than --min-free-space: puts are refused, everything else goes on.
    enospc   Without that limit: the store itself runs into the end of the disk. What was
             acknowledged is there or refused for now, never gone.

In both, space returns when a ballast file is deleted, and work goes on without a restart; and the
server is killed and started while there is no space. Without a single free byte it may refuse to
start: it must then say why, and start when space is back.

Needs a mount namespace (root, or unprivileged user namespaces); without one it is skipped (77).
"""

import collections
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

from beanstalk import PATIENCE, SKIPPED, Checks, Folder, Gone, Server, argument_parser, now, \
    parse, put_command

MOUNTED = "CARILLON_FULL_DISK_NAMESPACE"
REFUSALS = {"OUT_OF_MEMORY", "INTERNAL_ERROR"}
MIB = 1 << 20
BODY = 8000
PIPELINE = 32
STORE = "--min-free-space 0 --memtable-size 1MiB --max-log-size 2MiB --block-cache-size 1MiB"


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


class Disk:
    """A tmpfs, and ballast on it."""

    def __init__(self, path, megabytes):
        self.path = path
        self.path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", path],
                       check=True)
        self.ballast = path / "ballast"

    def free(self):
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def add_ballast(self, size):
        with open(self.ballast, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)

    def drop_ballast(self):
        self.ballast.unlink()

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.path], check=False)


class Ledger:
    """What was acknowledged: id -> body; and what an error leaves open."""

    def __init__(self):
        self.jobs = {}
        self.deleted = set()
        self.uncertain = set()

    def put(self, reply, body):
        self.jobs[reply.id] = body

    def delete(self, job_id, reply):
        if reply.word == "DELETED":
            self.deleted.add(job_id)
            self.jobs.pop(job_id, None)
        else:
            self.uncertain.add(job_id)

    def look(self, client):
        """(ids acknowledged and gone or of another body, ids whose look was refused, ids back)"""
        ids = sorted(set(self.jobs) - self.uncertain)
        replies = client.ask_all([f"peek {job_id}" for job_id in ids], depth=50)
        refused = [job_id for job_id, reply in zip(ids, replies) if reply.word in REFUSALS]
        missing = [job_id for job_id, reply in zip(ids, replies)
                   if reply.word not in REFUSALS and reply.body != self.jobs[job_id]]
        gone = sorted(self.deleted)
        replies = client.ask_all([f"peek {job_id}" for job_id in gone])
        back = [job_id for job_id, reply in zip(gone, replies) if reply.word == "FOUND"]
        return missing, refused, back


class FullDisk:
    """What both scenarios do."""

    def __init__(self, args, folder, checks, megabytes):
        self.args = args
        self.random = random.Random(args.seed)
        self.checks = checks
        self.ledger = Ledger()
        self.disk = Disk(folder / self.name, megabytes)
        self.server = Server(args.server, self.disk.path, args.server_args.split())

    def check(self, condition, what):
        return self.checks.that(condition, f"{self.name}: {what}")

    def put(self, client, delay):
        body = self.random.randbytes(BODY)
        client.send(put_command(body, delay=delay))
        reply = client.reply()
        if reply.word == "INSERTED":
            self.ledger.put(reply, body)
        return reply

    def put_ready(self, count):
        with self.server.client() as client:
            client.ask("use near")
            replies = collections.Counter(self.put(client, 0).word for _ in range(count))
        self.check(set(replies) == {"INSERTED"}, f"jobs are put: {dict(replies)}")

    def check_all_there(self, when, may_refuse=False):
        with self.server.client() as client:
            missing, refused, back = self.ledger.look(client)
        self.check(not missing and (may_refuse or not refused),
                   f"{when}: {len(self.ledger.jobs)} jobs were acknowledged: {len(missing)} are "
                   f"missing {missing[:5]}, {len(refused)} cannot be read now")
        self.check(not back, f"{when}: {len(self.ledger.deleted)} deletes were acknowledged, "
                   f"{len(back)} of these jobs came back {back[:5]}")

    def work(self, count, answers):
        """A worker reserves `count` times, and deletes what it gets."""
        with self.server.client() as client:
            client.ask("watch near")
            for _ in range(count):
                reply = client.ask("reserve-with-timeout 0")
                answers[reply.word] += 1
                if reply.word != "RESERVED":
                    continue
                answers["wrong body"] += self.ledger.jobs.get(reply.id) != reply.body
                deleted = client.ask(f"delete {reply.id}")
                answers[deleted.word] += 1
                self.ledger.delete(reply.id, deleted)

    def check_work(self, when):
        answers = collections.Counter()
        self.work(20, answers)
        self.check(answers["RESERVED"] == answers["DELETED"] == 20 and not answers["wrong body"],
                   f"{when}: a worker reserves and deletes 20 jobs: {dict(answers)}")

    def await_put(self, wanted):
        """Puts until the answer is `wanted`; returns the last answer."""
        start, reply = now(), None
        with self.server.client() as client:
            client.ask("use far")
            while now() < start + PATIENCE:
                reply = self.put(client, 3600)
                if reply.word == wanted:
                    break
                time.sleep(0.02)
        return reply, now() - start

    def check_healing(self, when):
        self.disk.drop_ballast()
        reply, seconds = self.await_put("INSERTED")
        self.check(reply.word == "INSERTED", f"{when}: space is freed; a put is answered {reply} "
                   f"after {seconds:.2f} s, without a restart")

    def check_end(self):
        status = self.server.terminate()
        self.check(status == 0, f"SIGTERM: exit status {status}")
        self.server.start()
        self.check_all_there("after SIGTERM")
        self.check_work("after SIGTERM")
        self.server.kill()


class Guard(FullDisk):
    """--min-free-space, with its default of 128 MiB."""

    name = "guard"

    def __init__(self, args, folder, checks):
        super().__init__(args, folder, checks, megabytes=192)

    def run(self):
        self.server.start()
        self.put_ready(150)
        self.disk.add_ballast(96 * MIB)
        reply, _ = self.await_put("OUT_OF_MEMORY")
        self.check(reply.word == "OUT_OF_MEMORY",
                   f"{self.disk.free() // MIB} MiB free: a put is answered {reply}")
        self.check_everything_else_goes_on()
        self.check_all_there("little space")
        self.check_said("puts are refused", 1)

        self.server.kill()
        self.server.start()
        reply, _ = self.await_put("OUT_OF_MEMORY")
        self.check(reply.word == "OUT_OF_MEMORY",
                   f"killed and started with little space: a put is answered {reply}")
        self.check_work("started with little space")
        self.check_all_there("started with little space")
        self.check_healing("little space")
        self.check_said("puts are refused", 2)
        self.check_said("puts are taken again", 1)
        self.check_work("healed")
        self.check_all_there("healed")
        self.check_end()

    def check_said(self, what, times):
        count = self.server.log.read_text().count(what)
        self.check(count == times, f'the log says "{what}" {count} times, one for each episode')

    def check_everything_else_goes_on(self):
        """A refused put must not disturb the others: one client puts all the time."""
        puts, answers, stop = collections.Counter(), collections.Counter(), threading.Event()

        def refused():
            with self.server.client() as client:
                while not stop.is_set():
                    client.send(put_command(b"refused"))
                    puts[client.reply().word] += 1

        thread = threading.Thread(target=refused)
        thread.start()
        try:
            self.work(20, answers)
            with self.server.client() as client:
                client.ask("watch near")
                client.ask("use near")
                for end, done in (("release %d 0 0", "RELEASED"), ("release %d 0 3600", "RELEASED"),
                                  ("bury %d 0", "BURIED")):
                    for _ in range(5):
                        job = client.ask("reserve-with-timeout 0").id
                        answers[client.ask(end % job).word == done] += 1
                answers[str(client.ask("kick 100"))] += 1
        finally:
            stop.set()
            thread.join()
        self.check(answers == {"RESERVED": 20, "DELETED": 20, "wrong body": 0, True: 15,
                               "KICKED 5": 1},
                   f"meanwhile reserve, delete, release, bury and kick go on: {dict(answers)}")
        self.check(set(puts) == {"OUT_OF_MEMORY"}, f"another client's puts: {dict(puts)}")


class NoSpace(FullDisk):
    """The store's own writes fail."""

    name = "enospc"

    def __init__(self, args, folder, checks):
        super().__init__(args, folder, checks, args.megabytes)
        if not args.server_args:
            self.server.arguments = STORE.split()

    def fill(self):
        """Puts jobs until 3 batches running are refused whole. Returns (accepted, refusals)."""
        accepted, refusals, running = 0, collections.Counter(), 0
        limit = 4 * self.args.megabytes * MIB // BODY
        with self.server.client() as client:
            client.ask("use far")
            while running < 3 and accepted < limit:
                bodies = [self.random.randbytes(BODY) for _ in range(PIPELINE)]
                client.send(b"".join(put_command(body, delay=3600) for body in bodies))
                running += 1
                for body in bodies:
                    reply = client.reply()
                    if reply.word == "INSERTED":
                        self.ledger.put(reply, body)
                        accepted += 1
                        running = 0
                    else:
                        refusals[str(reply)] += 1
        return accepted, refusals

    def check_refusal(self, when):
        start = now()
        accepted, refusals = self.fill()
        self.check(accepted > 0 and refusals and set(refusals) <= REFUSALS,
                   f"{when}: {accepted} puts accepted, then refused: {dict(refusals)} "
                   f"({now() - start:.1f} s, {self.disk.free() // 1024} KiB free)")

    def check_full(self, when):
        """What may be asked of a server without a byte to write: no lie."""
        answers = collections.Counter()
        self.work(20, answers)
        self.check(set(answers) <= {"RESERVED", "DELETED", "TIMED_OUT", "wrong body"} | REFUSALS
                   and not answers["wrong body"], f"{when}: a worker is told {dict(answers)}")
        self.check_all_there(when, may_refuse=True)

    def run(self):
        self.disk.add_ballast(self.args.megabytes * MIB // 3)
        self.server.start()
        self.put_ready(150)
        self.check_refusal("disk full")
        self.check_full("disk full")
        self.check_healing("disk full")
        self.check_work("healed")
        self.check_all_there("healed")
        self.server.kill()
        self.server.start()
        self.check_all_there("after kill -9")

        # Again, and this time it is killed while the disk is full.
        self.disk.add_ballast(max(MIB, self.disk.free() - self.args.megabytes * MIB // 8))
        self.check_refusal("disk full again")
        self.server.kill()
        print(f"  killed with {self.disk.free() // 1024} KiB free")
        if self.start_on_full_disk():
            self.check_full("started on a full disk")
            self.check_healing("started on a full disk")
        else:
            self.disk.drop_ballast()
            self.server.start()
        self.check_all_there("space freed")
        self.check_end()

    def start_on_full_disk(self):
        try:
            seconds = self.server.start()
        except RuntimeError:
            status = self.server.process.poll()
            said = self.server.log.read_text().splitlines()[-1]
            self.check(status == 3 and "No space left" in said,
                       f"does not start on a full disk, exit status {status}: {said}")
            return False
        return self.check(True, f"starts on a full disk, in {seconds:.2f} s")


SCENARIOS = {scenario.name: scenario for scenario in (Guard, NoSpace)}


def run(scenario, args, folder, checks):
    test = SCENARIOS[scenario](args, folder, checks)
    failed = checks.failed
    try:
        test.run()
    except (Gone, TimeoutError, RuntimeError) as error:
        test.check(False, f"the server is there and answers: {error!r}")
    finally:
        test.server.kill()
        if checks.failed > failed:
            print(test.server.log_tail())
        test.disk.unmount()


def main():
    enter_namespace()
    parser = argument_parser(__doc__)
    parser.add_argument("--megabytes", type=int, default=40, help="size of the disk [40]")
    parser.add_argument("--scenario", choices=sorted(SCENARIOS), help="only this one [both]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    checks = Checks()
    with Folder("full-disk", args.keep) as folder:
        for scenario in [args.scenario] if args.scenario else SCENARIOS:
            run(scenario, args, pathlib.Path(folder), checks)
        return checks.status()


if __name__ == "__main__":
    sys.exit(main())
