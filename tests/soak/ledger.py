# SPDX-License-Identifier: Apache-2.0
"""What was put and what came of it, and the judgement: nothing lost, nothing early, nothing twice.

A body begins with a token. The token is in the ledger before the put is sent, so a job may be
delivered before its put is answered.
"""

import collections
import itertools
import threading
import time

import paths  # pylint: disable=unused-import  # Where beanstalk.py is.
from beanstalk import now


class Entry:
    """One put."""

    __slots__ = ("token", "tube", "due", "due_wall", "id", "held", "delayed", "takes", "state")

    def __init__(self, token, tube, due, due_wall, delayed):
        self.token = token
        self.tube = tube
        self.due = due            # By the clock that delays count on, in seconds; or
        self.due_wall = due_wall  # by the calendar.
        self.delayed = delayed    # Its first delivery tells how late it was.
        self.id = None            # Known when the put was answered.
        self.held = False
        self.takes = 0
        self.state = "sent"       # sent, acknowledged, buried


class Ledger:
    """Shared by all threads."""

    def __init__(self):
        self.lock = threading.RLock()
        self.live = {}
        self.counts = collections.Counter()
        self.faults = collections.Counter()
        self.details = []
        self.late = []            # Of first deliveries since it was last taken, seconds.
        self.instances = collections.defaultdict(dict)  # schedule: {period: id}
        self._serial = itertools.count()

    def fault(self, kind, detail):
        with self.lock:
            self.faults[kind] += 1
            if self.faults[kind] <= 5:
                self.details.append(f"{kind}: {detail}")

    def take_late(self):
        with self.lock:
            late, self.late = self.late, []
        return late

    # -- what producers say

    def put(self, tube, delay=0.0, due_wall=None):
        """A put is about to be sent. Returns its entry; the body begins with entry.token + ":"."""
        token = f"{next(self._serial):x}"
        due = None if due_wall is not None else now() + delay
        entry = Entry(token, tube, due, due_wall, delay > 0 or due_wall is not None)
        with self.lock:
            self.live[token] = entry
        return entry

    def acknowledged(self, entry, job_id):
        with self.lock:
            self.counts["put"] += 1
            entry.id = int(job_id)
            if entry.state == "sent":
                entry.state = "acknowledged"

    def cancelled(self, entry):
        """The server has said that it is deleted."""
        with self.lock:
            self.counts["cancelled"] += 1
            if self.live.pop(entry.token, None) is None:
                self.fault("twice", f"{entry.tube} {entry.id} was cancelled and had been done")

    # -- what workers say

    def took(self, body, at=None, wall=None):
        """A job was delivered. Returns its entry, or None if it cannot be."""
        at = now() if at is None else at
        wall = time.time() if wall is None else wall
        token = body.split(":" if isinstance(body, str) else b":", 1)[0]
        token = token if isinstance(token, str) else token.decode()
        with self.lock:
            entry = self.live.get(token)
            if entry is None:
                self.fault("came back", f"token {token}, which was deleted")
                return None
            late = at - entry.due if entry.due is not None else wall - entry.due_wall
            if late < 0:
                self.fault("early", f"{entry.tube} {entry.id} by {-late * 1000:.3f} ms")
            if entry.held:
                self.fault("two leases", f"{entry.tube} {entry.id}")
            if entry.delayed and entry.takes == 0:
                self.late.append(late)
            entry.held = True
            entry.takes += 1
            self.counts["taken"] += 1
        return entry

    def gave_back(self, entry, delay=0.0, at=None):
        """Before a release is sent, or a connection is closed: it may come again. After `delay`."""
        with self.lock:
            self.counts["released"] += 1
            entry.held = False
            entry.due = (now() if at is None else at) + delay
            entry.due_wall = None

    def buried(self, entry):
        with self.lock:
            self.counts["buried"] += 1
            entry.held = False
            entry.state = "buried"

    def kicked(self, entry):
        """Before the kick is sent."""
        with self.lock:
            self.counts["kicked"] += 1
            entry.state = "acknowledged"

    def done(self, entry):
        """The server has said that it is deleted."""
        with self.lock:
            self.counts["done"] += 1
            if self.live.pop(entry.token, None) is None:
                self.fault("twice", f"{entry.tube} {entry.id} was deleted twice")

    def instance(self, schedule, period, job_id):
        """An instance of a schedule was delivered."""
        with self.lock:
            known = self.instances[schedule].setdefault(period, job_id)
            if known != job_id:
                self.fault("period twice", f"{schedule} {period}: jobs {known} and {job_id}")

    def of_state(self, state, tube=None):
        with self.lock:
            return [entry for entry in self.live.values()
                    if entry.state == state and not entry.held and tube in (None, entry.tube)]
