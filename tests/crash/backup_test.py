#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Backups, restores and checks around kill -9.

offline: each round runs a load against a server, kills it, and then, with programs that are
killed too:

    check      the folder that the kill left is sound, before anything has recovered it
    backup     killed at random moments: what it leaves is refused by restore; then a whole one
    restore    killed at random moments: what it leaves is refused by serve; then a whole one
    serve      of the restored folder: every job that was acknowledged is there, with its body, and
               no id that was given out is given out again

online: each round asks for backups, one after the other, while the load runs, and kills the server
in the middle of one. Each that was made is sound and has every job that had been acknowledged when
it was asked for and has not been deleted since; what is left of the last one is refused.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from beanstalk import PATIENCE, Checks, Client, Folder, Gone, Server, argument_parser, now, parse, \
    put_command

CONNECTIONS = 3
DEPTH = 20
DELAYS = (0, 0, 0, 3, 3600, 86400)


class Ledger:
    """What was acknowledged, and what a kill left open."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}  # id -> body
        self.open = set()  # ids in commands that were not answered

    def run(self, port, seed, stop):
        """Puts, reserves, deletes, buries and kicks until the server is gone."""
        dice = random.Random(seed)
        tube = f"t{seed % 7}"
        try:
            with Client(port) as client:
                client.ask(f"use {tube}")
                client.ask(f"watch {tube}")
                client.ask("ignore default")
                while not stop.is_set():
                    self.put(client, dice)
                    self.work(client, dice)
        except Gone:
            pass

    def put(self, client, dice):
        bodies = [dice.randbytes(dice.choice((0, 10, 200, 5000))) for _ in range(DEPTH)]
        client.send(b"".join(put_command(body, delay=dice.choice(DELAYS)) for body in bodies))
        for body in bodies:
            job = client.reply().id
            with self.lock:
                self.jobs[job] = body

    def work(self, client, dice):
        for _ in range(DEPTH // 2):
            reply = client.ask("reserve-with-timeout 0")
            if reply.word != "RESERVED":
                return
            if dice.random() < 0.5:
                with self.lock:
                    self.open.add(reply.id)
                if client.ask(f"delete {reply.id}").word == "DELETED":
                    with self.lock:
                        self.open.discard(reply.id)
                        self.jobs.pop(reply.id)
            else:
                client.ask(f"bury {reply.id} 0" if dice.random() < 0.5
                           else f"release {reply.id} 0 {dice.choice(DELAYS)}")
        client.ask("kick 2")

    def certain(self):
        return {job: body for job, body in self.jobs.items() if job not in self.open}


class Round:
    def __init__(self, args, folder, number, checks):
        self.args = args
        self.folder = folder / f"round-{number}"
        self.folder.mkdir()
        self.dice = random.Random(f"{args.seed}/{number}")
        self.checks = checks
        self.ledger = Ledger()
        self.server = Server(args.server, self.folder / "live", args.server_args.split())
        self.backup = self.folder / "backup"
        self.restored = self.folder / "restored" / "data"

    def carillon(self, *words):
        done = subprocess.run([self.server.program, *map(str, words)], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout, done.stderr

    def killed(self, *words):
        """Runs it, and kills it at a random moment. Returns whether it was killed in time."""
        with subprocess.Popen([self.server.program, *map(str, words)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as child:
            time.sleep(self.dice.random() * 0.06)
            child.kill()
            return child.wait() != 0

    def load_and_kill(self, meanwhile=None):
        self.server.start()
        stop = threading.Event()
        threads = [threading.Thread(target=self.ledger.run,
                                    args=(self.server.port, self.dice.randrange(1 << 30), stop))
                   for _ in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        if meanwhile is None:
            time.sleep(self.args.seconds)
        else:
            meanwhile()
        self.server.kill()
        stop.set()
        for thread in threads:
            thread.join()

    def check(self, folder, what):
        status, out, err = self.carillon("check", folder, "--json")
        report = json.loads(out) if out else {}
        self.checks.that(status == 0 and report.get("sound"),
                         f"{what}: check says {status}, {report.get('jobs')} jobs "
                         f"{report.get('faults') or ''}{err}")
        certain = len(self.ledger.certain())
        self.checks.that(certain <= report.get("jobs", 0) <= certain + len(self.ledger.open) +
                         CONNECTIONS * DEPTH, f"{what}: {certain} jobs are certain")
        return report

    def run(self):
        self.load_and_kill()
        report = self.check(self.server.data, "killed")

        halves = 0
        for _ in range(self.args.kills):
            if not self.killed("backup", "--data", self.server.data, self.backup):
                break
            if self.backup.exists():
                break  # It was whole already; the kill came during its check.
            half = self.backup.with_name("backup.incomplete")
            # With the list of its files, which is written last, it wants nothing but its name.
            if half.exists() and not (half / "BACKUP").exists():
                halves += 1
                status, _, err = self.carillon("restore", half, "--data", self.restored.parent)
                self.checks.that(status == 1 and "not finished" in err,
                                 f"a half backup is refused: {status} {err.strip()}")
        if not self.backup.exists():
            status, out, err = self.carillon("backup", "--data", self.server.data, self.backup)
            self.checks.that(status == 0, f"backup after {halves} halves: {status} {out}{err}")
        made = self.check(self.backup, "backup")
        self.checks.that(made.get("jobs") == report.get("jobs"), "the backup has all jobs")

        self.restored.parent.mkdir()
        halves = 0
        for _ in range(self.args.kills):
            self.killed("restore", self.backup, "--data", self.restored)
            if (self.restored / "RESTORING").exists():
                halves += 1
                status, _, err = self.carillon("serve", "--data", self.restored, "--listen",
                                               "127.0.0.1:0")
                self.checks.that(status == 3 and "interrupted" in err,
                                 f"a half restored folder is not served: {status} {err.strip()}")
            shutil.rmtree(self.restored, ignore_errors=True)
        status, out, err = self.carillon("restore", self.backup, "--data", self.restored)
        self.checks.that(status == 0, f"restore after {halves} halves: {status} {out}{err}")
        self.judge()
        shutil.rmtree(self.folder)

    def run_online(self):
        backups = self.folder / "backups"
        self.server.arguments += ["--backup-folder", str(backups), "--memtable-size", "1MiB"]
        promised = {}  # name -> jobs acknowledged when it was asked for

        def ask_for_backups():
            time.sleep(self.args.seconds / 2)
            for _ in range(2):
                known = set(backups.iterdir()) if backups.exists() else set()
                with self.ledger.lock:
                    jobs = self.ledger.certain()
                os.kill(self.server.pid, signal.SIGUSR2)
                deadline = now() + PATIENCE
                while now() < deadline:
                    there = set(backups.iterdir()) if backups.exists() else set()
                    new = {path for path in there - known if path.suffix != ".incomplete"}
                    if new:
                        promised[new.pop()] = jobs
                        break
                    time.sleep(0.01)
                time.sleep(1.1)  # Their names are seconds.
            os.kill(self.server.pid, signal.SIGUSR2)
            time.sleep(self.dice.random() * 0.02)

        self.load_and_kill(ask_for_backups)
        self.checks.that(len(promised) == 2, f"{len(promised)} backups were made under load")
        certain = self.ledger.certain()
        for path in sorted(backups.iterdir()):
            if path.suffix == ".incomplete":
                if (path / "BACKUP").exists():
                    continue  # It wants nothing but its name.
                status, _, err = self.carillon("restore", path, "--data", self.folder / "half")
                self.checks.that(status == 1 and "not finished" in err,
                                 f"a half backup is refused: {status} {err.strip()}")
                continue
            jobs = {job: body for job, body in promised.get(path, {}).items() if job in certain}
            self.restored = self.folder / f"restored-{path.name}" / "data"
            self.restored.parent.mkdir()
            status, out, err = self.carillon("restore", path, "--data", self.restored)
            self.checks.that(status == 0, f"restore {path.name}: {status} {out}{err}")
            self.judge(jobs)
        self.check(self.server.data, "killed while it made a backup")
        shutil.rmtree(self.folder)

    def judge(self, jobs=None):
        restored = Server(self.args.server, self.restored.parent, self.args.server_args.split())
        restored.start()
        try:
            with restored.client() as client:
                certain = sorted((self.ledger.certain() if jobs is None else jobs).items())
                replies = client.ask_all([f"peek {job}" for job, _ in certain], depth=50)
                missing = [job for (job, body), reply in zip(certain, replies)
                           if reply.word != "FOUND" or reply.body != body]
                self.checks.that(not missing, f"restored: {len(certain)} jobs were acknowledged, "
                                 f"{len(missing)} are missing or of another body {missing[:5]}")
                client.send(put_command(b"new"))
                new = client.reply().id
                self.checks.that(new > 1 << 32, f"restored: the next id is {new}")
            status = restored.terminate()
            self.checks.that(status == 0, f"restored: SIGTERM ends with {status}")
        finally:
            restored.kill()
        if jobs is None:
            self.check(self.restored, "restored and served")


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of load a round [1]")
    parser.add_argument("--kills", type=int, default=4, help="of backup and of restore [4]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    checks = Checks()
    with Folder("backup", args.keep) as folder:
        for number in range(args.rounds):
            print(f"round {number}")
            Round(args, pathlib.Path(folder), number, checks).run()
            Round(args, pathlib.Path(folder), f"{number}-online", checks).run_online()
        return checks.status()


if __name__ == "__main__":
    sys.exit(main())
