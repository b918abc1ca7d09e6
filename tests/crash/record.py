# SPDX-License-Identifier: Apache-2.0
"""The outside record of what a server has promised, and the judge of what it kept.

The record is told of each command when it is sent and of each answer when it comes. A command that
was answered binds the server; one that was cut off by a kill may have been done or not, so the job
has several *shapes* in which it may be found afterwards, and nothing third:

    acknowledged put                           there, in its shape
    put cut off                                there in its shape, or not at all
    acknowledged delete                        gone for ever
    release, bury, kick, delete cut off        as before, or as after
    reserved                                   ready, with its priority (a crash ends reservations)

Time: a delay counts from some moment between command and answer, so a due time is an interval. A
job that becomes ready before its beginning is early, one still delayed `late()` after its end is
late.

Partitions: a tube is in one of them, and so are the ids of its jobs, which are equal modulo their
number. Ids ascend, and jobs over several tubes come in order, within a partition only.
"""

import collections
import dataclasses
import itertools
import threading

from beanstalk import Pulse, now

LATE = 3.0  # seconds, and as much more as the machine has kept us waiting
MAX_IDS_SKIPPED = 50_000  # of a partition, by a few starts: ids are kept in reserve

MAX_DETAILS = 2  # of each category


PULSE = Pulse()


def late():
    return LATE + PULSE.longest


@dataclasses.dataclass(frozen=True)
class Shape:
    """One way to find a job: state is delayed, ready, buried or gone."""

    state: str
    pri: int = 0
    due: tuple = (0.0, 0.0)

    def __str__(self):
        due = f" due {self.due[0]:.3f}..{self.due[1]:.3f}" if self.state == "delayed" else ""
        return "gone" if self.state == "gone" else f"{self.state} pri {self.pri}{due}"


GONE = Shape("gone")


class Job:
    """One job as the record knows it. `holder` is the connection that has reserved it."""

    def __init__(self, job_id, body, tube, ttr, shape):
        self.id = job_id
        self.body = body
        self.tube = tube
        self.ttr = ttr
        self.shape = shape
        self.alternatives = []  # further shapes, until they are looked at
        self.cut_off_as = 0  # the how-manieth command that the kill cut off
        self.holder = None
        self.held_since = (0.0, 0.0)
        self.in_flight = None  # the command on it that is not answered yet
        self.history = []

    def note(self, text):
        self.history.append(f"{now():.3f} {text}")

    def ready_for_sure_at(self):
        """When it must be ready at the latest, if it is to become ready at all."""
        if self.holder is not None or self.shape.state in ("buried", "gone"):
            return float("inf")
        return self.shape.due[1] if self.shape.state == "delayed" else 0.0

    def may_be_ready(self, at):
        if self.holder is not None:
            return at >= self.held_since[0] + self.ttr
        return self.shape.state == "ready" or (
            self.shape.state == "delayed" and at >= self.shape.due[0])


class Operation:
    """A command that was sent. `tube` of a reserve is the set of tubes watched."""

    __slots__ = ("verb", "job", "pri", "delay", "body", "tube", "ttr", "count", "alone", "sent",
                 "overtaken")

    def __init__(self, verb, job=None, pri=0, delay=0, body=None, tube=None, ttr=0, count=0,
                 alone=False):
        self.verb = verb
        self.job = job
        self.pri = pri
        self.delay = delay
        self.body = body
        self.tube = tube
        self.ttr = ttr
        self.count = count
        self.alone = alone  # no other connection uses these tubes, so that the order is known
        self.sent = 0.0
        self.overtaken = False  # another connection saw its effect before its answer came

    def shape_after(self, until):
        """What the job looks like if it was carried out between `sent` and `until`."""
        if self.verb in ("put", "release"):
            if self.delay:
                return Shape("delayed", self.pri, (self.sent + self.delay, until + self.delay))
            return Shape("ready", self.pri)
        if self.verb == "bury":
            return Shape("buried", self.pri)
        if self.verb == "delete":
            return GONE
        raise AssertionError(self.verb)

    def __str__(self):
        extra = {"put": f" pri={self.pri} delay={self.delay}",
                 "release": f" pri={self.pri} delay={self.delay}",
                 "bury": f" pri={self.pri}"}.get(self.verb, "")
        return f"{self.verb}{extra}"


class Record:
    """All jobs, and the list of what went wrong. Threads: take `lock` around every call."""

    def __init__(self, partitions=1):
        self.partitions = partitions
        self.lock = threading.RLock()
        self.jobs = {}  # id -> Job, those not gone
        self.tubes = collections.defaultdict(dict)  # tube -> id -> Job, the same jobs
        self.gone = {}  # id -> Job, acknowledged deletes
        self.in_flight_puts = {}  # body -> Operation
        self.cut_off_puts = {}  # body -> (Operation, killed at)
        self.buried = collections.defaultdict(list)  # tube -> ids, oldest first
        # Of each partition: the largest id seen before this start of the server, the largest of
        # all, and the smallest since.
        self.id_floor = [0] * partitions
        self.largest_id = [0] * partitions
        self.smallest_new_id = [None] * partitions
        self.is_draining = False  # SIGTERM was sent
        self.counts = collections.Counter()
        self.violations = collections.Counter()
        self.details = []

    # -- judging

    def violation(self, category, text, job=None):
        self.violations[category] += 1
        if self.violations[category] <= MAX_DETAILS:
            history = "".join(f"\n      {line}" for line in job.history[-8:]) if job else ""
            self.details.append(f"{category}: {text}{history}")

    def violation_if(self, condition, category, text, job=None):
        if condition:
            self.violation(category, text, job)

    # -- while the load runs: what was answered

    def sent(self, operation):
        operation.sent = now()
        if operation.verb == "put":
            self.in_flight_puts[operation.body] = operation
        elif operation.job is not None:
            operation.job.in_flight = operation

    def answered(self, connection, operation, reply):
        """Applies the answer to `operation`, which `connection` sent, and judges it."""
        self.counts[operation.verb] += 1
        if operation.job is not None and operation.job.in_flight is operation:
            operation.job.in_flight = None
        getattr(self, "_on_" + operation.verb.replace("-", "_"))(connection, operation, reply)

    def _unexpected(self, operation, reply):
        self.violation("answer", f"{operation} was answered {reply}", operation.job)

    def _settle(self, job, shape):
        if job.shape.state == "buried":
            self.buried[job.tube].remove(job.id)
        job.shape = shape
        job.alternatives = []
        job.holder = None
        if shape.state == "buried":
            self.buried[job.tube].append(job.id)
        elif shape.state == "gone":
            self.gone[job.id] = self.jobs.pop(job.id)
            del self.tubes[job.tube][job.id]

    def _add(self, job_id, operation, until):
        job = Job(job_id, operation.body, operation.tube, operation.ttr,
                  operation.shape_after(until))
        job.note(f"{operation} in {operation.tube} -> {job.shape}")
        reused = job_id in self.jobs or job_id in self.gone
        self.violation_if(reused, "id_reused", f"id {job_id} was given twice", job)
        own = job_id % self.partitions
        self.violation_if(job_id <= self.id_floor[own], "id_reused", f"id {job_id} after a "
                          f"restart, though {self.id_floor[own]} was given before")
        self.gone.pop(job_id, None)
        self.jobs[job_id] = job
        self.tubes[job.tube][job_id] = job
        self.largest_id[own] = max(self.largest_id[own], job_id)
        self.smallest_new_id[own] = min(self.smallest_new_id[own] or job_id, job_id)
        return job

    def _on_put(self, _, operation, reply):
        del self.in_flight_puts[operation.body]
        if reply.word == "DRAINING":
            return
        if reply.word != "INSERTED":
            self._unexpected(operation, reply)
            return
        known = operation.job  # another connection got it before this answer was read
        if known is None:
            self._add(reply.id, operation, reply.at)
        else:
            self.violation_if(known.id != reply.id, "body",
                              f"put answered {reply}, delivered as {known.id}", known)

    def _on_delete(self, connection, operation, reply):
        job = operation.job
        if reply.word == "DELETED":
            job.note("deleted")
            if job.id in self.jobs:
                self._settle(job, GONE)
        elif reply.word == "NOT_FOUND":
            self.violation("lost", f"delete {job.id}: NOT_FOUND ({job.shape})", job)
            if job.id in self.jobs:
                self._settle(job, GONE)
        else:
            self._unexpected(operation, reply)

    def _held(self, connection, operation, reply, wanted):
        """Whether a command of the holder was done; NOT_FOUND is right only after its TTR."""
        job = operation.job
        if operation.overtaken:
            return False
        if reply.word == wanted:
            self.violation_if(job.holder is not connection, "state",
                              f"{operation} of job {job.id}, not held, was answered {reply}", job)
            return True
        if reply.word != "NOT_FOUND":
            self._unexpected(operation, reply)
        elif job.holder is connection:
            self.violation_if(reply.at < job.held_since[0] + job.ttr, "lease",
                              f"{operation} of job {job.id}: NOT_FOUND though held since "
                              f"{job.held_since[0]:.3f} with ttr {job.ttr}", job)
            job.holder = None
        return False

    def _on_release(self, connection, operation, reply):
        if self._held(connection, operation, reply, "RELEASED"):
            self._settle(operation.job, operation.shape_after(reply.at))
            operation.job.note(f"{operation} -> {operation.job.shape}")

    def _on_bury(self, connection, operation, reply):
        if self._held(connection, operation, reply, "BURIED"):
            self._settle(operation.job, operation.shape_after(reply.at))
            operation.job.note(f"{operation} -> {operation.job.shape}")

    def _on_touch(self, connection, operation, reply):
        if self._held(connection, operation, reply, "TOUCHED"):
            operation.job.held_since = (operation.sent, reply.at)
            operation.job.note("touched")

    def _on_kick_job(self, _, operation, reply):
        job = operation.job
        if reply.word == "KICKED":
            self.violation_if(job.shape.state not in ("buried", "delayed"), "state",
                              f"kick-job {job.id} ({job.shape}): KICKED", job)
            self._settle(job, Shape("ready", job.shape.pri))
            job.note("kicked -> ready")
        elif reply.word == "NOT_FOUND":
            self.violation_if(not job.may_be_ready(reply.at) and job.holder is None, "lost",
                              f"kick-job {job.id} ({job.shape}): NOT_FOUND", job)
        else:
            self._unexpected(operation, reply)

    def _on_kick(self, _, operation, reply):
        if reply.word != "KICKED":
            self._unexpected(operation, reply)
            return
        kicked = list(self.buried[operation.tube][: operation.count])
        self.violation_if(int(reply.words[1]) != len(kicked), "state",
                          f"kick {operation.count} in {operation.tube} with buried "
                          f"{self.buried[operation.tube]}: {reply}")
        for job_id in kicked:
            job = self.jobs[job_id]
            self._settle(job, Shape("ready", job.shape.pri))
            job.note("kicked (oldest) -> ready")

    def _on_reserve(self, connection, operation, reply):
        if reply.word in ("TIMED_OUT", "DEADLINE_SOON"):
            if reply.word == "TIMED_OUT":
                self._check_nothing_ready(operation)
            return
        if reply.word != "RESERVED":
            self._unexpected(operation, reply)
            return
        job = self._identify(reply)
        if job is None:
            return
        if job.holder is not None:
            self._overtake(connection, job, reply)
        self.violation_if(job.body != reply.body, "body", f"job {job.id}: another body", job)
        self.violation_if(job.tube not in operation.tube, "state",
                          f"job {job.id} of {job.tube} reserved from {operation.tube}", job)
        if job.holder is not None or not job.may_be_ready(reply.at):
            early = job.shape.state == "delayed" and job.holder is None
            self.violation("early" if early else "lease" if job.holder is not None else "state",
                           f"job {job.id} ({job.shape}, held: {job.holder is not None}) reserved "
                           f"at {reply.at:.3f}", job)
        self._check_order(operation, job, reply)
        if job.shape.state != "ready":
            self._settle(job, Shape("ready", job.shape.pri))
        job.holder = connection
        job.held_since = (operation.sent, reply.at)
        job.note("reserved")
        connection.held.append(job)

    def _identify(self, reply):
        job = self.jobs.get(reply.id)
        if job is not None:
            return job
        if reply.id in self.gone:
            job = self.gone[reply.id]
            self.violation("came_back", f"job {reply.id} reserved after its delete", job)
            return None
        put = self.in_flight_puts.get(reply.body)
        if put is None or put.job is not None:
            self.violation("phantom", f"job {reply.id} reserved, {len(reply.body)} bytes never put")
            return None
        put.job = self._add(reply.id, put, reply.at)
        return put.job

    def _overtake(self, connection, job, reply):
        """A job that is held comes again: its TTR is over, its release is not answered yet, or the
        server, which is stopping, has ended the connection of its holder."""
        if reply.at >= job.held_since[0] + job.ttr:
            job.holder = None
            job.note("its ttr is over")
            return
        if job.holder is connection:
            return
        in_flight = job.in_flight
        released = in_flight is not None and in_flight.verb == "release"
        if in_flight is not None and (released or self.is_draining):
            in_flight.overtaken = True
        if self.is_draining:
            # A release that the server has not read any more was not done. Nobody will tell.
            job.holder = None
            job.note("the connection of its holder was ended")
            if released and in_flight.delay == 0:
                job.alternatives.append(in_flight.shape_after(reply.at))
                job.note(f"or {in_flight}")
        elif released:
            self._settle(job, in_flight.shape_after(reply.at))
            job.note(f"{in_flight} (seen before its answer) -> {job.shape}")

    def _jobs_in(self, tubes):
        return itertools.chain.from_iterable(self.tubes[tube].values() for tube in tubes)

    def _check_nothing_ready(self, operation):
        if not operation.alone or self.is_draining:
            return
        for job in self._jobs_in(operation.tube):
            slack = 0 if job.shape.state == "ready" else late()
            if job.in_flight is None and job.ready_for_sure_at() + slack < operation.sent:
                self.violation("lost" if job.shape.state == "ready" else "late",
                               f"job {job.id} ({job.shape}) should be ready, but reserve "
                               "answered TIMED_OUT", job)
                return

    def _check_order(self, operation, job, reply):
        if not operation.alone:
            return
        for other in self._jobs_in(operation.tube if self.partitions == 1 else [job.tube]):
            if (other.shape.pri, other.id) < (job.shape.pri, job.id) and \
                    other.in_flight is None and other.ready_for_sure_at() + late() < operation.sent:
                self.violation("order", f"job {job.id} (pri {job.shape.pri}) came before job "
                               f"{other.id} ({other.shape})", other)
                return

    # -- after the kill: what was not answered

    def cut_off(self, operation, killed_at):
        """Whether `operation`, cut off by the kill, was carried out is unknown."""
        self.counts["cut off: " + operation.verb] += 1
        job = operation.job
        if operation.verb == "put":
            self.in_flight_puts.pop(operation.body, None)
            if job is None:
                self.cut_off_puts[operation.body] = (operation, killed_at)
            elif job.id in self.jobs:
                job.alternatives.append(GONE)  # it was never acknowledged, only seen
            return
        if operation.verb == "kick":
            for job_id in self.buried[operation.tube][: operation.count]:
                self._may_be(self.jobs[job_id], Shape("ready", self.jobs[job_id].shape.pri))
            return
        if job is None or job.id not in self.jobs or operation.overtaken:
            return
        job.in_flight = None
        if operation.verb == "kick-job":
            self._may_be(job, Shape("ready", job.shape.pri))
        elif operation.verb in ("release", "bury", "delete"):
            self._may_be(job, operation.shape_after(killed_at))

    def _may_be(self, job, shape):
        job.alternatives.append(shape)
        job.cut_off_as = sum(self.counts.values())
        job.note(f"cut off; may be {shape}")

    def end_reservations(self):
        """The server is down: nobody holds anything."""
        for job in self.jobs.values():
            job.holder = None
            job.in_flight = None

    # -- after the restart: is all there?

    def judge_restart(self, client, everything):
        """Looks at every job through `client`, whose server was started again, nobody else there.

        `everything`: look for the return of all deleted jobs, not only of the last 2,000.
        """
        self._judge_known(client)
        self._judge_gone(client, everything)
        self._find_cut_off(client)
        self._judge_tubes(client)
        self.id_floor = list(self.largest_id)
        self.smallest_new_id = [None] * self.partitions

    def _judge_known(self, client):
        # In the order of the commands cut off, which is the order in which jobs were buried.
        jobs = sorted(self.jobs.values(), key=lambda job: job.cut_off_as)
        asked = now()
        stats = client.ask_all([f"stats-job {job.id}" for job in jobs])
        bodies = client.ask_all([f"peek {job.id}" for job in jobs])
        for job, reply, body in zip(jobs, stats, bodies):
            self._judge_job(job, reply, asked)
            if job.id in self.jobs:
                self.violation_if(body.word != "FOUND" or body.body != job.body, "body",
                                  f"job {job.id}: its body is not what was put", job)

    def _judge_job(self, job, reply, asked):
        shapes = [job.shape] + job.alternatives
        job.alternatives = []
        if reply.word == "NOT_FOUND":
            found = GONE
            matches = GONE in shapes
        else:
            stats = reply.yaml()
            found = Shape(stats["state"], int(stats["pri"]))
            matches = False
            for shape in shapes:
                if self._fits(shape, stats, asked, reply.at):
                    matches = True
                    due = shape.due if found.state == "delayed" else (0.0, 0.0)
                    found = Shape(found.state, found.pri, due)
                    break
            self.violation_if(stats["tube"] != job.tube or int(stats["ttr"]) != job.ttr, "state",
                              f"job {job.id} is in {stats['tube']} with ttr {stats['ttr']}, not "
                              f"{job.tube}, {job.ttr}", job)
        if len(shapes) > 1 and matches:
            self.counts["cut off, not done" if found.state == shapes[0].state
                        and found.pri == shapes[0].pri else "cut off, done"] += 1
        if not matches:
            self.violation(self._category(shapes, found, asked),
                           f"job {job.id} may be {' or '.join(map(str, shapes))}, but is "
                           f"{found} at {reply.at:.3f}", job)
            if found.state == "delayed":
                found = Shape("delayed", found.pri, (0.0, float("inf")))
            elif found.state == "reserved":
                found = Shape("ready", found.pri)
        job.cut_off_as = 0
        if found != job.shape:
            self._settle(job, found)

    @staticmethod
    def _fits(shape, stats, asked, answered):
        if shape.state == "gone" or int(stats["pri"]) != shape.pri:
            return False
        if shape.state != "delayed":
            return stats["state"] == shape.state
        if stats["state"] == "ready":
            return answered >= shape.due[0]
        # `time-left` is cut to whole seconds, after up to 2 ms were taken off (so that it reads
        # like beanstalkd's finer one).
        left = int(stats["time-left"])
        return stats["state"] == "delayed" and asked < shape.due[1] + late() and \
            shape.due[0] - answered - 1.005 <= left <= max(0.0, shape.due[1] - asked) + 0.1

    @staticmethod
    def _category(shapes, found, asked):
        if found.state == "gone":
            return "lost"
        if shapes[0].state == "gone":
            return "came_back"
        same_state = [shape for shape in shapes if shape.state == found.state]
        if same_state:
            same_pri = [shape for shape in same_state if shape.pri == found.pri]
            if same_pri and all(shape.due[1] + late() < asked for shape in same_pri):
                return "late"
            return "due" if same_pri else "pri"
        if found.state == "ready" and any(shape.state == "delayed" for shape in shapes):
            return "early"
        return "state"

    def _judge_gone(self, client, everything):
        ids = list(self.gone)
        ids = ids if everything else ids[-2000:]
        for job_id, reply in zip(ids, client.ask_all([f"stats-job {i}" for i in ids])):
            self.violation_if(reply.word != "NOT_FOUND", "came_back",
                              f"job {job_id} is there after its delete was acknowledged",
                              self.gone[job_id])

    def _find_cut_off(self, client):
        """Looks where the jobs of cut off puts would be: among the ids nobody was told."""
        ids = [i for i in self._ids_not_told() if i not in self.jobs and i not in self.gone]
        for job_id, reply in zip(ids, client.ask_all([f"peek {i}" for i in ids])):
            if reply.word != "FOUND":
                continue
            operation, killed_at = self.cut_off_puts.pop(reply.body, (None, 0.0))
            if operation is None:
                self.violation("phantom", f"job {job_id}, {len(reply.body)} bytes, was never put, "
                               "or is there twice")
                continue
            job = self._add(job_id, operation, killed_at)
            asked = now()
            self._judge_job(job, client.ask(f"stats-job {job_id}"), asked)
            self.counts["cut off, done"] += 1
        self.counts["cut off, not done"] += len(self.cut_off_puts)
        self.cut_off_puts.clear()

    def _ids_not_told(self):
        margin = len(self.cut_off_puts) + 64
        for own in range(self.partitions):
            floor, smallest = self.id_floor[own], self.smallest_new_id[own]
            first, last = floor + 1, self.largest_id[own] + margin * self.partitions
            if smallest is not None:
                first = max(first, smallest - margin * self.partitions)
            elif self.cut_off_puts:
                last = floor + MAX_IDS_SKIPPED * self.partitions
            first += (own - first) % self.partitions
            yield from range(first, last, self.partitions)

    def _judge_tubes(self, client):
        """Nothing may be there that the record does not know, and the buried are in order."""
        expected = {tube: len(jobs) for tube, jobs in self.tubes.items()}
        tubes = set(client.ask("list-tubes").names()) | set(expected)
        for tube in sorted(tubes):
            reply = client.ask(f"stats-tube {tube}")
            stats = reply.yaml() if reply.word == "OK" else {}
            found = sum(int(stats.get("current-jobs-" + state, 0))
                        for state in ("ready", "reserved", "delayed", "buried"))
            known = expected.get(tube, 0)
            self.violation_if(found != known, "phantom" if found > known else "lost",
                              f"tube {tube} has {found} jobs, not {known}")
            if self.buried[tube]:
                client.ask(f"use {tube}")
                oldest = client.ask("peek-buried")
                self.violation_if(
                    oldest.word != "FOUND" or oldest.id != self.buried[tube][0], "buried_order",
                    f"tube {tube}: oldest buried is {oldest}, not {self.buried[tube][0]}")
                if oldest.word == "FOUND" and oldest.id in self.buried[tube]:
                    self.buried[tube].remove(oldest.id)
                    self.buried[tube].insert(0, oldest.id)
