#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9, again and again, of a server with webhooks, whose endpoint fails, hangs, closes, and
talks garbage.

Each job that was acknowledged is taken by the endpoint at least once, whole and signed, none before
it is due, and in the end the tube is empty.
"""

import collections
import http.client
import json
import random
import socket
import sys
import threading
import time

from beanstalk import PATIENCE, Checks, Folder, Server, argument_parser, now, parse
from webhook_endpoint import Endpoint

SECRET = "a secret of the crash test"
TUBES = ("hooked", "other", "third")


class Api:
    """A small client of the HTTP API."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, method, path, document=None):
        body = None if document is None else json.dumps(document)
        self.connection.request(method, path, body, {"Content-Type": "application/json"})
        response = self.connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text else None

    def ask_lines(self, path, lines):
        """A batch: the results, a line each."""
        self.connection.request("POST", path, lines, {"Content-Type": "application/x-ndjson"})
        response = self.connection.getresponse()
        return response.status, [json.loads(line) for line in response.read().splitlines()]


class Producer(threading.Thread):
    """Puts jobs until the server is gone."""

    def __init__(self, port, seed, jobs):
        super().__init__(daemon=True)
        self.port, self.random, self.jobs = port, random.Random(seed), jobs
        self.stop = False

    def run(self):
        try:
            api = Api(self.port)
            while not self.stop:
                tube = self.random.choice(TUBES)
                delay_ms = self.random.choice((0, 0, self.random.randrange(1500)))
                body = "%016x" % self.random.getrandbits(64) * self.random.randrange(1, 50)
                begun = now()
                ttr_ms = self.random.choice((1000, 60000))
                status, answer = api.ask("POST", f"/api/v1/tubes/{tube}/jobs", {
                    "body": body, "delay_ms": delay_ms, "ttr_ms": ttr_ms})
                if status != 201:
                    raise RuntimeError(f"put: {status} {answer}")
                self.jobs[int(answer["id"])] = (tube, body, begun + delay_ms / 1000)
                time.sleep(0.002)
        except (OSError, http.client.HTTPException):
            pass


def settings(endpoint):
    return {"webhook": {"url": endpoint.url, "secrets": [SECRET], "concurrency": 8,
                        "timeout_ms": 500, "max_attempts": 0,
                        "backoff": {"base_ms": 20, "cap_ms": 300}}}


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a round")
    args = parse(parser)
    print(f"seed {args.seed}")
    dice = random.Random(args.seed)
    checks = Checks()
    endpoint = Endpoint(SECRET, args.seed)
    jobs = {}
    with Folder("webhooks", args.keep) as folder:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        server = Server(args.server, folder, args.server_args.split() + [
            "--webhook-allow", "127.0.0.1", "--http-listen", f"127.0.0.1:{port}"])
        try:
            run(server, port, endpoint, jobs, dice, args)
            settle(server, endpoint, jobs, checks)
        finally:
            server.kill()
    judge(endpoint, jobs, checks)
    return checks.status()


def run(server, port, endpoint, jobs, dice, args):
    server.start()
    api = Api(port)
    for tube in TUBES:
        status, answer = api.ask("PUT", f"/api/v1/tubes/{tube}/settings", settings(endpoint))
        if status not in (200, 204):
            raise RuntimeError(f"settings: {status} {answer}")
    for number in range(args.rounds):
        endpoint.mood = list(Endpoint.MOODS) + ["take"] * 6
        producers = [Producer(port, dice.getrandbits(64), jobs) for _ in range(2)]
        for producer in producers:
            producer.start()
        time.sleep(args.seconds * dice.uniform(0.5, 1.5))
        server.kill()
        for producer in producers:
            producer.join(PATIENCE)
        print(f"round {number + 1}: {len(jobs)} acknowledged, {len(endpoint.requests)} requests, "
              f"{len(endpoint.taken())} jobs taken", flush=True)
        server.start()


def settle(server, endpoint, jobs, checks):
    """The endpoint is well from now on: everything has to be taken."""
    endpoint.mood = "take"
    begun = now()
    left = None
    while now() < begun + PATIENCE:
        with server.client() as client:
            left = 0
            for tube in TUBES:
                stats = client.ask(f"stats-tube {tube}")
                if stats.word == "OK":
                    yaml = stats.yaml()
                    left += sum(int(yaml[f"current-jobs-{state}"])
                                for state in ("ready", "reserved", "delayed", "buried"))
        if left == 0 and not set(jobs) - endpoint.taken():
            break
        time.sleep(0.1)
    checks.that(left == 0, f"the tubes are empty in the end ({left} left, {now() - begun:.1f} s)")
    checks.that(server.terminate() == 0, "it ends cleanly")


def judge(endpoint, jobs, checks):
    lost = set(jobs) - endpoint.taken()
    checks.that(len(jobs) > 100, f"{len(jobs)} jobs were acknowledged")
    checks.that(not lost,
                f"each was taken at least once ({len(lost)} were not: {sorted(lost)[:5]})")
    early = [(seen.job, jobs[seen.job][2] - seen.at) for seen in endpoint.requests
             if seen.job in jobs and seen.at < jobs[seen.job][2]]
    checks.that(not early, f"none before it was due ({early[:5]})")
    wrong = [seen.job for seen in endpoint.requests if seen.job in jobs and
             (seen.tube, seen.body.decode()) != jobs[seen.job][:2]]
    checks.that(not wrong, f"each whole, and of its tube ({wrong[:5]})")
    checks.that(endpoint.unsigned == 0, f"each signed ({endpoint.unsigned} were not)")
    checks.that(endpoint.broken == 0, "each a POST to the path of the webhook")
    checks.that(endpoint.connections < len(endpoint.requests),
                f"connections were used again ({endpoint.connections} for "
                f"{len(endpoint.requests)} requests)")
    times = collections.Counter(seen.job for seen in endpoint.requests if seen.taken)
    again = sum(count - 1 for count in times.values())
    print(f"  {len(endpoint.requests)} requests, {again} jobs taken a second time")


if __name__ == "__main__":
    sys.exit(main())
