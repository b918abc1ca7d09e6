# SPDX-License-Identifier: Apache-2.0
"""The load of the soak: producers, workers, a webhook, schedules, watchers, and who disturbs."""

import datetime
import http.client
import json
import random
import socket
import struct
import threading
import time

import paths  # pylint: disable=unused-import
from beanstalk import Client, Gone, now, put_command
from webhook_endpoint import Endpoint

PADDING = "x" * 400
SECRET = "a secret of the soak"
TUBES = ("red", "green", "blue", "white", "grey")
HOOKED, FAR, INSTANCES = "hooked", "far", "instances"
# name: spec, overlap. The last two have instances that take longer than a period.
SCHEDULES = {
    "every second": ({"every_ms": 1000}, "allow"),
    "second by cron": ({"cron": "* * * * * *", "time_zone": "Europe/Amsterdam"}, "allow"),
    "minute by cron": ({"cron": "* * * * *"}, "allow"),
    "skips": ({"every_ms": 1000}, "skip"),
    "queues": ({"every_ms": 1000}, "queue"),
}
SLOW = ("skips", "queues")


def milliseconds(text):
    """Since 1970, of a date in JSON."""
    due = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(due.timestamp() * 1000)


class Unexpected(RuntimeError):
    """An answer that the load cannot go on with."""


class Api:
    """A small client of the HTTP API, on one connection."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def ask(self, method, path, document=None, kind="application/json", wanted=(200, 201, 204)):
        body = document if document is None or isinstance(document, bytes) \
            else json.dumps(document).encode()
        self.connection.request(method, path, body, {"Content-Type": kind} if body else {})
        response = self.connection.getresponse()
        text = response.read()
        if response.status not in wanted:
            raise Unexpected(f"{method} {path}: {response.status} {text[:300]!r}")
        if not text or "json" not in response.headers.get("Content-Type", ""):
            return response.status, text
        if "ndjson" in response.headers["Content-Type"]:
            return response.status, [json.loads(line) for line in text.splitlines()]
        return response.status, json.loads(text)


class Part(threading.Thread):
    """One thread of the load. A fault of it is a fault of the run."""

    def __init__(self, soak, seed):
        super().__init__(daemon=True)
        self.ledger, self.port, self.http = soak.ledger, soak.server.port, soak.http
        self.random = random.Random(f"{seed}.{type(self).__name__}")
        self.ending = soak.ending  # No more work is made.
        self.ended = soak.ended    # And none is left.

    def run(self):
        try:
            self.work()
        except Exception as error:  # pylint: disable=broad-except
            self.ledger.fault("answer", f"{type(self).__name__}: {error!r}")

    def each(self, interval, until=None):
        """Yields every `interval` seconds, a little at random, until the end."""
        until = until or self.ending
        while not until.wait(interval * self.random.uniform(0.5, 1.5)):
            yield

    def body(self, entry):
        return f"{entry.token}:{PADDING[:self.random.randrange(len(PADDING))]}"


class BeanstalkProducer(Part):
    """Pipelines puts, near ones, on connections that live for some seconds."""

    def work(self):
        while not self.ending.is_set():
            with Client(self.port) as client:
                until = now() + self.random.uniform(1, 8)
                for _ in self.each(0.1):
                    if now() > until:
                        break
                    self.batch(client)

    def batch(self, client):
        tube = self.random.choice(TUBES)
        entries = []
        data = [b"use %s\r\n" % tube.encode()]
        for _ in range(self.random.randrange(1, 20)):
            delay = self.random.choice((0, 0, 1, 1, 2, 5))
            entry = self.ledger.put(tube, delay)
            entries.append(entry)
            data.append(put_command(self.body(entry).encode(), self.random.randrange(2000), delay))
        client.send(b"".join(data))
        client.reply()
        for entry in entries:
            self.ledger.acknowledged(entry, client.reply().id)


class HttpProducer(Part):
    """Single puts: by delay, by date, with keys, to the webhook's tube."""

    def work(self):
        with Api(self.http) as api:
            for _ in self.each(0.02):
                tube = HOOKED if self.random.random() < 0.4 else self.random.choice(TUBES)
                members, due_wall, delay = {}, None, 0.0
                if self.random.random() < 0.3:
                    due_wall = (int(time.time() * 1000) + self.random.randrange(3000)) / 1000
                    members["due_at"] = round(due_wall * 1000)
                elif self.random.random() < 0.8:
                    delay = self.random.randrange(1, 3000) / 1000
                    members["delay_ms"] = round(delay * 1000)
                entry = self.ledger.put(tube, delay, due_wall)
                if self.random.random() < 0.3:
                    members["key"] = "key " + entry.token
                _, answer = api.ask("POST", f"/api/v1/tubes/{tube}/jobs",
                                    {"body": self.body(entry), **members})
                self.ledger.acknowledged(entry, answer["id"])


class Batcher(Part):
    """A batch of NDJSON a second."""

    def work(self):
        with Api(self.http) as api:
            for _ in self.each(1.0):
                tube = self.random.choice(TUBES)
                entries, lines = [], []
                for _ in range(self.random.randrange(1, 160)):
                    delay = self.random.randrange(1, 8000) / 1000
                    entry = self.ledger.put(tube, delay)
                    entries.append(entry)
                    lines.append(json.dumps({"body": self.body(entry),
                                             "delay_ms": round(delay * 1000)}))
                _, results = api.ask("POST", f"/api/v1/tubes/{tube}/jobs:batch",
                                     "\n".join(lines).encode(), "application/x-ndjson")
                for entry, result in zip(entries, results, strict=True):
                    self.ledger.acknowledged(entry, result["id"])


class FarKeeper(Part):
    """Keeps `COUNT` jobs that are due in hours, puts and cancels some, has some come near."""

    COUNT = 2000

    def work(self):
        mine = {}
        with Api(self.http) as api:
            for _ in self.each(0.2):
                for _ in range(200 if len(mine) < self.COUNT else 10):
                    if len(mine) < self.COUNT:
                        self.put(api, mine)
                for _ in range(10 if len(mine) >= self.COUNT // 2 else 0):
                    self.take_out(api, mine)
            for entry, key in list(mine.values()):
                self.cancel(api, entry, key)

    def put(self, api, mine):
        delay = self.random.uniform(3600, 20 * 3600)
        entry = self.ledger.put(FAR, delay)
        key = "far " + entry.token if self.random.random() < 0.5 else None
        members = {"body": self.body(entry), "delay_ms": round(delay * 1000)}
        _, answer = api.ask("POST", f"/api/v1/tubes/{FAR}/jobs",
                            members | ({"key": key} if key else {}))
        self.ledger.acknowledged(entry, answer["id"])
        mine[entry.token] = (entry, key)

    def take_out(self, api, mine):
        entry, key = mine.pop(self.random.choice(list(mine)))
        if self.random.random() < 0.3:
            entry.due = now() + 1.0  # From here on it may come; nobody else knows of it yet.
            api.ask("PATCH", f"/api/v1/jobs/{entry.id}", {"delay_ms": 1000})
        else:
            self.cancel(api, entry, key)

    def cancel(self, api, entry, key):
        path = f"/api/v1/tubes/{FAR}/keys/{key}".replace(" ", "%20") if key \
            else f"/api/v1/jobs/{entry.id}"
        api.ask("DELETE", path)
        self.ledger.cancelled(entry)


class BeanstalkWorker(Part):
    """Reserves, and does all that a worker does."""

    def work(self):
        while not self.ended.is_set():
            with Client(self.port) as client:
                for tube in TUBES + (FAR,):
                    client.ask(f"watch {tube}")
                until = now() + self.random.uniform(2, 10)
                while now() < until and not self.ended.is_set():
                    reply = client.ask("reserve-with-timeout 1")
                    if reply.word == "RESERVED":
                        self.treat(client, reply)

    def treat(self, client, reply):
        entry = self.ledger.took(reply.body, reply.at)
        if entry is None:
            return
        dice = self.random.random() if not self.ending.is_set() else 1.0
        if dice < 0.04:
            self.ledger.gave_back(entry, 1)
            self.expect(client.ask(f"release {reply.id} {self.random.randrange(2000)} 1"),
                        "RELEASED")
        elif dice < 0.07:
            self.ledger.buried(entry)
            self.expect(client.ask(f"bury {reply.id} 0"), "BURIED")
        else:
            if dice < 0.1:
                self.expect(client.ask(f"touch {reply.id}"), "TOUCHED")
            self.expect(client.ask(f"delete {reply.id}"), "DELETED")
            self.ledger.done(entry)

    @staticmethod
    def expect(reply, word):
        if reply.word != word:
            raise Unexpected(f"{word} was expected, but the answer was {reply}")


class HttpWorker(Part):
    """Reserves many at a time by long poll."""

    def work(self):
        with Api(self.http) as api:
            while not self.ended.is_set():
                _, answer = api.ask("POST", "/api/v1/reserve", {
                    "tubes": list(TUBES) + [FAR], "max": 20, "wait_ms": 1000})
                at, wall = now(), time.time()
                done = []
                for job in answer["jobs"]:
                    entry = self.ledger.took(job["body"], at, wall)
                    if entry is None:
                        continue
                    path, receipt = f"/api/v1/jobs/{job['id']}/", {"receipt": job["receipt"]}
                    dice = self.random.random() if not self.ending.is_set() else 1.0
                    if dice < 0.04:
                        self.ledger.gave_back(entry, 0.25)
                        api.ask("POST", path + "release", {**receipt, "delay_ms": 250})
                    elif dice < 0.07:
                        self.ledger.buried(entry)
                        api.ask("POST", path + "bury", receipt)
                    else:
                        if dice < 0.1:
                            api.ask("POST", path + "touch", receipt)
                        done.append((entry, {"id": job["id"], **receipt}))
                if done:
                    _, results = api.ask("POST", "/api/v1/ack", {"jobs": [job for _, job in done]})
                    for (entry, _), result in zip(done, results["results"], strict=True):
                        if result.get("status") != 200:
                            raise Unexpected(f"ack: {result}")
                        self.ledger.done(entry)


class Kicker(Part):
    """Kicks what is buried, some by id, some by tube."""

    def work(self):
        with Api(self.http) as api, Client(self.port) as client:
            for _ in self.each(0.5, self.ended):
                buried = self.ledger.of_state("buried")
                for entry in buried:
                    self.ledger.kicked(entry)
                    if self.random.random() < 0.5:
                        # Not buried yet, if its worker waits for the answer.
                        _, answer = api.ask("POST", f"/api/v1/jobs/{entry.id}/kick",
                                            wanted=(200, 404, 409))
                        kicked = "id" in answer and "type" not in answer
                    else:
                        kicked = client.ask(f"kick-job {entry.id}").word == "KICKED"
                    if not kicked:
                        with self.ledger.lock:
                            if not entry.held:
                                entry.state = "buried"


class Hook(Endpoint):
    """Takes what the webhook posts, and refuses one of twenty."""

    def __init__(self, soak):
        self.ledger = soak.ledger
        super().__init__(SECRET, 1)
        self.mood = ["take"] * 19 + ["refuse"]

    def _take(self, connection, seen, fraction):
        entry = self.ledger.took(seen.body, seen.at)
        if entry is not None:
            # Deleted when the answer has been read: that it does not come again is what counts.
            self.ledger.done(entry)
        self.forget()
        return super()._take(connection, seen, fraction)

    def _refuse(self, connection, seen, fraction):
        entry = self.ledger.took(seen.body, seen.at)
        if entry is not None:
            self.ledger.gave_back(entry)
        self.forget()
        return super()._refuse(connection, seen, fraction)

    def forget(self):
        with self.lock:
            if len(self.requests) > 1000:
                del self.requests[:-100]

    def settings(self):
        return {"webhook": {"url": self.url, "secrets": [SECRET], "concurrency": 8,
                            "max_attempts": 0, "backoff": {"base_ms": 50, "cap_ms": 400}}}


class InstanceWorker(Part):
    """Works on the instances of the schedules; on those of some for longer than a period."""

    def work(self):
        held = []  # (when it is done, id, receipt)
        with Api(self.http) as api:
            while not self.ended.is_set():
                _, answer = api.ask("POST", "/api/v1/reserve", {
                    "tubes": [INSTANCES], "max": 20, "wait_ms": 200})
                for job in answer["jobs"]:
                    self.ledger.instance(job["schedule"], self.period(job), job["id"])
                    takes = 1.5 if job["schedule"] in SLOW else 0.0
                    held.append((now() + takes, job["id"], job["receipt"]))
                for job in [job for job in held if job[0] <= now()]:
                    held.remove(job)
                    api.ask("POST", f"/api/v1/jobs/{job[1]}/ack", {"receipt": job[2]})

    def period(self, job):
        period = milliseconds(job["due_at"])
        if time.time() * 1000 < period:
            self.ledger.fault("early", f"{job['schedule']} {job['due_at']}")
        return period


class Watcher(Part):
    """Looks at the dashboard all the time, and now and then opens a second one."""

    events = 0

    def work(self):
        with socket.create_connection(("127.0.0.1", self.http), 30) as stream:
            stream.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            rest, other = b"", None
            while not self.ending.is_set():
                data = stream.recv(1 << 16)
                if not data:
                    raise Unexpected("the stream of events ended")
                rest += data
                self.events += rest.count(b"event: stats\n")
                rest = rest[-12:] if not rest.endswith(b"event: stats\n") else b""
                if other is not None:
                    other.close()
                    other = None
                elif self.random.random() < 0.2:
                    other = socket.create_connection(("127.0.0.1", self.http), 30)
                    other.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")


class Lister(Part):
    """Lists: pages of jobs, tubes, statistics, the wheel; pauses a tube and has it go on."""

    def work(self):
        with Api(self.http) as api, Client(self.port) as client:
            for _ in self.each(1.0):
                self.page_through(api)
                for path in ("tubes", "tubes/red", "stats", "wheel", "schedules"):
                    api.ask("GET", "/api/v1/" + path)
                client.ask("stats")
                client.ask("list-tubes")
                client.ask("stats-tube green")
                api.ask("PUT", "/api/v1/tubes/grey/pause", {"for_ms": 50})

    def page_through(self, api):
        seen, cursor = set(), ""
        while True:
            _, page = api.ask("GET", f"/api/v1/tubes/{FAR}/jobs?state=delayed&limit=500{cursor}")
            ids = {job["id"] for job in page["jobs"]}
            if len(ids) != len(page["jobs"]) or ids & seen:
                self.ledger.fault("answer", "a job is on two pages of a listing")
            seen |= ids
            if "next" not in page:
                return
            cursor = "&cursor=" + page["next"]


class Disturber(Part):
    """Connections that come to nothing: reset, half a request, half a put, a worker that goes."""

    def work(self):
        for _ in self.each(0.3):
            choice = self.random.randrange(6)
            port = self.http if choice < 3 else self.port
            connection = socket.create_connection(("127.0.0.1", port), 30)
            if choice == 0:
                connection.sendall(b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\nCon")
            elif choice == 1:
                body = b'{"tubes":["nothing"],"wait_ms":60000}'
                connection.sendall(b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                                   % len(body) + body)
            elif choice == 3:
                connection.sendall(b"put 0 0 60 100\r\nhalf a bo")
            elif choice == 4:
                self.vanish_with_a_job()
            time.sleep(self.random.uniform(0, 0.1))
            if self.random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                      struct.pack("ii", 1, 0))
            connection.close()

    def vanish_with_a_job(self):
        with Client(self.port) as client:
            client.ask("watch red")
            reply = client.ask("reserve-with-timeout 0")
            if reply.word == "RESERVED":
                entry = self.ledger.took(reply.body, reply.at)
                if entry is not None:
                    self.ledger.gave_back(entry)


PRODUCERS = (BeanstalkProducer, HttpProducer, Batcher, FarKeeper, Watcher, Lister, Disturber)
WORKERS = (BeanstalkWorker, HttpWorker, Kicker, InstanceWorker)
GONE = (Gone, OSError, http.client.HTTPException)
