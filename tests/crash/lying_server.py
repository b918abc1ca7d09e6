#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small correct server of the beanstalkd protocol that can be told to do one thing wrong.

It exists to show that the judges of the crash tests can fail: judge_test.py runs kill_loop.py on it
with each fault. One thread, everything in memory, a journal of JSON lines (no fsync: it faces
kill -9, not a power cut). Chosen by LYING_SERVER_FAULT; `none` tells no lies.

    lying_server.py serve --data DIR --listen 127.0.0.1:PORT
"""

import collections
import heapq
import json
import os
import random
import selectors
import signal
import socket
import sys
import time

FAULTS = {
    # fault: what kill_loop.py must call it
    "lose_put": "lost",
    "lose_delete": "came_back",
    "fire_early": "early",
    "shift_due": "due",
    "never_fire": "late",
    "release_forgets_pri": "pri",
    "bury_not_kept": "state",
    "flip_body": "body",
    "reuse_ids": "id_reused",
    "two_holders": "lease",
    "ghost_job": "phantom",
    "ignore_pri": "order",
    "buried_reversed": "buried_order",
    "bad_exit": "exit",
    "insert_lies": "answer",
}


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Job:
    def __init__(self, job_id, tube, pri, delay, ttr, body):
        self.id = job_id
        self.tube = tube
        self.pri = pri
        self.delay = delay
        self.ttr = ttr
        self.body = body
        self.state = "ready"
        self.until = 0.0  # end of the delay or of the reservation
        self.holder = None

    def stats(self):
        left = max(0, int(self.until - now())) if self.state in ("delayed", "reserved") else 0
        return (f"---\nid: {self.id}\ntube: {self.tube}\nstate: {self.state}\npri: {self.pri}\n"
                f"delay: {self.delay}\nttr: {self.ttr}\ntime-left: {left}\n")


class Session:
    def __init__(self, connection):
        self.socket = connection
        self.input = b""
        self.output = b""
        self.used = "default"
        self.watched = ["default"]
        self.waits_until = None  # of a reserve that is not answered yet

    def answer(self, line, body=None):
        self.output += line.encode() + b"\r\n"
        if body is not None:
            self.output += body + b"\r\n"


class Server:
    def __init__(self, data, fault):
        self.fault = fault
        self.random = random.Random()
        self.jobs = {}
        self.buried = collections.defaultdict(list)
        self.timers = []
        self.next_id = 1
        self.sessions = {}
        self.is_stopping = False
        path = os.path.join(data, "journal")
        self.journal = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self.replay(os.fdopen(os.dup(self.journal), "rb"))

    def lies(self, fault, share=1.0):
        return self.fault == fault and self.random.random() < share

    # -- the journal

    def write(self, **entry):
        os.write(self.journal, json.dumps(entry).encode() + b"\n")

    def replay(self, journal):
        kept = 0
        for line in journal:
            try:
                entry = json.loads(line if line.endswith(b"\n") else b"")
            except ValueError:
                os.truncate(self.journal, kept)  # torn: the rest was never acknowledged
                break
            kept += len(line)
            if entry["do"] == "put":
                job = Job(entry["id"], entry["tube"], entry["pri"], entry["delay"], entry["ttr"],
                          entry["body"].encode("latin-1"))
                self.jobs[job.id] = job
                self.next_id = max(self.next_id, job.id + 1)
            job = self.jobs[entry["id"]]
            if job.state == "buried":
                self.buried[job.tube].remove(job.id)
            job.state = entry["state"]
            job.pri = entry["pri"]
            job.until = entry["until"]
            if job.state == "buried":
                self.buried[job.tube].append(job.id)
            elif job.state == "gone":
                del self.jobs[job.id]
        if self.fault == "reuse_ids":
            self.next_id = max(1, self.next_id - 3)
        if self.fault == "ghost_job" and self.jobs:
            ghost = next(iter(self.jobs.values()))
            self.jobs[self.next_id] = Job(self.next_id, ghost.tube, 0, 0, 60, b"boo")
        if self.fault == "buried_reversed":
            for ids in self.buried.values():
                ids.reverse()
        for job in self.jobs.values():
            if job.state == "delayed":
                job.until += 7 if self.fault == "shift_due" else 0
                self.start_timer(job)
            if self.lies("flip_body", 0.02):
                job.body = job.body[:-1] + b"\0"

    def keep(self, do, job):
        if (self.lies("lose_put", 0.02) and do == "put") or \
                (self.lies("lose_delete", 0.05) and do == "delete") or \
                (self.fault == "bury_not_kept" and do == "bury"):
            if do == "put":
                job.delay = -1  # so that no later entry refers to it
            return
        if job.delay < 0:
            return
        pri = job.pri
        if self.fault == "release_forgets_pri" and do == "release":
            pri = job.old_pri
        entry = {"do": do, "id": job.id, "state": job.state, "pri": pri, "until": job.until}
        if do == "put":
            entry.update(tube=job.tube, delay=job.delay, ttr=job.ttr,
                         body=job.body.decode("latin-1"))
        self.write(**entry)

    # -- states

    def enter(self, job, state, seconds=0.0):
        if job.state == "buried":
            self.buried[job.tube].remove(job.id)
        job.state = state
        job.holder = None
        job.until = 0.0
        if state == "buried":
            self.buried[job.tube].append(job.id)
        elif state == "gone":
            del self.jobs[job.id]
        elif state in ("delayed", "reserved"):
            job.until = now() + seconds
            self.start_timer(job)

    def start_timer(self, job):
        if job.state == "delayed" and self.fault == "fire_early":
            heapq.heappush(self.timers, (job.until - 0.9, -job.id))
        if job.state == "delayed" and self.fault == "never_fire" and job.id % 4 == 0:
            return
        heapq.heappush(self.timers, (job.until, job.id))

    def delay_or_ready(self, job, delay):
        if delay:
            self.enter(job, "delayed", delay)
        else:
            self.enter(job, "ready")

    def run_timers(self):
        while self.timers and self.timers[0][0] <= now():
            until, job_id = heapq.heappop(self.timers)
            job = self.jobs.get(abs(job_id))
            if job is None or job.state not in ("delayed", "reserved"):
                continue
            if until == job.until or (job_id < 0 and job.state == "delayed"):
                self.enter(job, "ready")

    # -- reserving

    def best(self, session):
        ready = [job for job in self.jobs.values()
                 if job.tube in session.watched and (job.state == "ready" or (
                     job.state == "reserved" and self.lies("two_holders", 0.02)))]
        if not ready:
            return None
        if self.fault == "ignore_pri":
            return max(ready, key=lambda job: job.id)
        return min(ready, key=lambda job: (job.pri, job.id))

    def grant(self, session):
        """Answers the waiting reserve of `session` if it can be."""
        job = self.best(session)
        if job is not None:
            self.enter(job, "reserved", job.ttr)
            job.holder = session
            session.waits_until = None
            session.answer(f"RESERVED {job.id} {len(job.body)}", job.body)
        elif now() >= session.waits_until:
            session.waits_until = None
            session.answer("TIMED_OUT")

    # -- commands

    def execute(self, session):
        """Executes the commands that are whole in the input, up to a reserve that waits."""
        while session.waits_until is None:
            line, found, rest = session.input.partition(b"\r\n")
            if not found:
                return
            words = line.decode("latin-1").split(" ")
            if words[0] == "put":
                size = int(words[4])
                if len(rest) < size + 2:
                    return
                words.append(rest[:size])
                rest = rest[size + 2:]
            session.input = rest
            handler = getattr(self, "do_" + words[0].replace("-", "_"), None)
            if handler is None:
                session.answer("UNKNOWN_COMMAND")
            else:
                handler(session, *words[1:])

    def do_put(self, session, pri, delay, ttr, _, body):
        job = Job(self.next_id, session.used, int(pri), int(delay), max(1, int(ttr)), body)
        self.next_id += 1
        self.jobs[job.id] = job
        self.delay_or_ready(job, job.delay)
        self.keep("put", job)
        session.answer("OUT_OF_MEMORY" if self.lies("insert_lies", 0.01) else f"INSERTED {job.id}")

    def do_use(self, session, tube):
        session.used = tube
        session.answer(f"USING {tube}")

    def do_watch(self, session, tube):
        if tube not in session.watched:
            session.watched.append(tube)
        session.answer(f"WATCHING {len(session.watched)}")

    def do_ignore(self, session, tube):
        if session.watched == [tube]:
            session.answer("NOT_IGNORED")
            return
        if tube in session.watched:
            session.watched.remove(tube)
        session.answer(f"WATCHING {len(session.watched)}")

    def do_reserve(self, session):
        session.waits_until = float("inf")
        self.grant(session)

    def do_reserve_with_timeout(self, session, seconds):
        session.waits_until = now() + int(seconds)
        self.grant(session)

    def do_delete(self, session, job_id):
        job = self.jobs.get(int(job_id))
        if job is None or (job.state == "reserved" and job.holder is not session):
            session.answer("NOT_FOUND")
            return
        self.enter(job, "gone")
        self.keep("delete", job)
        session.answer("DELETED")

    def held(self, session, job_id):
        job = self.jobs.get(int(job_id))
        if job is None or job.state != "reserved" or job.holder is not session:
            session.answer("NOT_FOUND")
            return None
        return job

    def do_release(self, session, job_id, pri, delay):
        job = self.held(session, job_id)
        if job is not None:
            job.old_pri, job.pri = job.pri, int(pri)
            self.delay_or_ready(job, int(delay))
            self.keep("release", job)
            session.answer("RELEASED")

    def do_bury(self, session, job_id, pri):
        job = self.held(session, job_id)
        if job is not None:
            job.pri = int(pri)
            self.enter(job, "buried")
            self.keep("bury", job)
            session.answer("BURIED")

    def do_touch(self, session, job_id):
        job = self.held(session, job_id)
        if job is not None:
            self.enter(job, "reserved", job.ttr)
            job.holder = session
            session.answer("TOUCHED")

    def do_kick_job(self, session, job_id):
        job = self.jobs.get(int(job_id))
        if job is None or job.state not in ("buried", "delayed"):
            session.answer("NOT_FOUND")
            return
        self.enter(job, "ready")
        self.keep("kick", job)
        session.answer("KICKED")

    def do_kick(self, session, bound):
        jobs = [self.jobs[i] for i in self.buried[session.used]]
        if not jobs:
            jobs = sorted((job for job in self.jobs.values()
                           if job.tube == session.used and job.state == "delayed"),
                          key=lambda job: (job.until, job.id))
        jobs = jobs[: int(bound)]
        for job in jobs:
            self.enter(job, "ready")
            self.keep("kick", job)
        session.answer(f"KICKED {len(jobs)}")

    def do_peek(self, session, job_id):
        job = self.jobs.get(int(job_id))
        if job is None:
            session.answer("NOT_FOUND")
        else:
            session.answer(f"FOUND {job.id} {len(job.body)}", job.body)

    def do_peek_buried(self, session):
        ids = self.buried[session.used]
        self.do_peek(session, ids[0] if ids else 0)

    @staticmethod
    def answer_yaml(session, text):
        session.answer(f"OK {len(text)}", text.encode())

    def do_stats_job(self, session, job_id):
        job = self.jobs.get(int(job_id))
        if job is None:
            session.answer("NOT_FOUND")
        else:
            self.answer_yaml(session, job.stats())

    def do_stats_tube(self, session, tube):
        states = collections.Counter(job.state for job in self.jobs.values() if job.tube == tube)
        self.answer_yaml(session, "---\nname: " + tube + "\n" + "".join(
            f"current-jobs-{s}: {states[s]}\n" for s in ("ready", "reserved", "delayed", "buried")))

    def do_stats(self, session):
        self.answer_yaml(session, f"---\ncurrent-connections: {len(self.sessions)}\n")

    def do_list_tubes(self, session):
        tubes = {"default"} | {job.tube for job in self.jobs.values()}
        self.answer_yaml(session, "---\n" + "".join(f"- {tube}\n" for tube in sorted(tubes)))

    def do_quit(self, session):
        self.close(session)

    # -- sockets

    def close(self, session):
        if self.sessions.pop(session.socket, None) is None:
            return
        self.selector.unregister(session.socket)
        session.socket.close()
        session.waits_until = None
        session.input = session.output = b""
        for job in [job for job in self.jobs.values() if job.holder is session]:
            self.enter(job, "ready")

    def read(self, session):
        try:
            data = session.socket.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close(session)
            return
        session.input += data
        self.execute(session)

    def flush(self, session):
        while session.output:
            try:
                session.output = session.output[session.socket.send(session.output):]
            except BlockingIOError:
                return
            except OSError:
                self.close(session)
                return

    def serve(self, port):
        self.selector = selectors.DefaultSelector()
        listener = socket.create_server(("127.0.0.1", port), backlog=512)
        listener.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ)
        while not self.is_stopping:
            for key, _ in self.selector.select(0.005):
                if key.fileobj is listener:
                    connection, _ = listener.accept()
                    connection.setblocking(False)
                    self.sessions[connection] = Session(connection)
                    self.selector.register(connection, selectors.EVENT_READ)
                elif key.fileobj in self.sessions:
                    self.read(self.sessions[key.fileobj])
            self.run_timers()
            for session in list(self.sessions.values()):
                if session.waits_until is not None:
                    self.grant(session)
                    self.execute(session)
                self.flush(session)


def main():
    if len(sys.argv) != 6 or sys.argv[1:3] != ["serve", "--data"] or sys.argv[4] != "--listen":
        sys.exit(__doc__)
    fault = os.environ.get("LYING_SERVER_FAULT", "none")
    if fault != "none" and fault not in FAULTS:
        sys.exit(f"LYING_SERVER_FAULT {fault}: not one of none, {', '.join(FAULTS)}")
    server = Server(sys.argv[3], fault)

    def stop(*_):
        server.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    server.serve(int(sys.argv[5].rpartition(":")[2]))
    return 1 if fault == "bad_exit" else 0


if __name__ == "__main__":
    sys.exit(main())
