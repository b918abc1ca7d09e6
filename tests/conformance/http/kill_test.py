#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 while jobs are put over HTTP, one by one and in batches, and acknowledged: what was
answered is there afterwards, what was acknowledged is gone, and no receipt survives.

    kill_test.py CARILLON
"""

import json
import random
import sys
import threading
import time
import unittest

from client import Server

BINARY = None
ROUNDS = 5


class Record:
    """What the server has promised so far. Shared by the threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.put = {}      # id: key, of jobs that were answered with 201
        self.gone = set()  # ids whose ack was answered
        self.unsure = set()  # ids whose ack was sent and not answered
        self.sent = set()  # keys that may be there


def put_batches(server, record, seed):
    count = 0
    while True:
        keys = [f"b{seed}-{count}-{i}" for i in range(400)]
        count += 1
        with record.lock:
            record.sent.update(keys)
        lines = b"\n".join(json.dumps({"body": key, "key": key}).encode() for key in keys)
        try:
            response = server.ask("POST", "/api/v1/tubes/kill/jobs:batch", lines,
                                  {"Content-Type": "application/x-ndjson"})
        except OSError:
            return
        except Exception:  # http.client has many names for a connection that ended.
            return
        with record.lock:
            for key, line in zip(keys, response.raw.splitlines()):
                result = json.loads(line)
                if result["status"] == 201:
                    record.put[result["id"]] = key


def put_singles(server, record, seed):
    connection = server.connect()
    count = 0
    while True:
        key = f"s{seed}-{count}"
        count += 1
        with record.lock:
            record.sent.add(key)
        try:
            job_id = server.put("kill", connection=connection, body=key, key=key)
        except Exception:
            return
        with record.lock:
            record.put[job_id] = key


def work(server, record):
    connection = server.connect()
    while True:
        try:
            jobs = server.reserve("kill", connection=connection, max=50, wait_ms=100)
        except Exception:
            return
        for job in jobs[::2]:
            with record.lock:
                record.unsure.add(job["id"])
            try:
                response = server.post(f"/api/v1/jobs/{job['id']}/ack",
                                       {"receipt": job["receipt"]}, connection=connection)
            except Exception:
                return
            if response.status == 200:
                with record.lock:
                    record.gone.add(job["id"])


class KillTest(unittest.TestCase):
    def test_no_acknowledged_job_is_lost(self):
        random.seed(3)
        record = Record()
        with Server(BINARY, durable=True) as server:
            receipts = []
            for round_number in range(ROUNDS):
                threads = [threading.Thread(target=put_batches,
                                            args=(server, record, f"{round_number}.{i}"))
                           for i in range(2)]
                threads += [threading.Thread(target=put_singles,
                                             args=(server, record, f"{round_number}.{i}"))
                            for i in range(2)]
                threads.append(threading.Thread(target=work, args=(server, record)))
                for thread in threads:
                    thread.start()
                time.sleep(0.4 + random.random() * 0.4)
                receipts += server.reserve("kill", max=3)
                server.process.kill()
                for thread in threads:
                    thread.join()
                server.process.wait()
                server.start()
                for job in receipts:
                    response = server.post(f"/api/v1/jobs/{job['id']}/ack",
                                           {"receipt": job["receipt"]})
                    self.assertEqual(response.problem, "stale-receipt", response)
            found, cursor = {}, ""
            while True:
                page = server.get(f"/api/v1/tubes/kill/jobs?state=ready&limit=1000{cursor}").json
                for job in page["jobs"]:
                    self.assertNotIn(job["id"], found)
                    found[job["id"]] = job["key"]
                if "next" not in page:
                    break
                cursor = "&cursor=" + page["next"]
        self.assertGreater(len(record.put), 1000)
        lost = {job_id for job_id in record.put
                if job_id not in found and job_id not in record.unsure}
        self.assertEqual(lost, set())
        self.assertEqual(record.gone & set(found), set(), "acknowledged, and back")
        self.assertEqual({key for key in found.values()} - record.sent, set())
        self.assertEqual({job_id: key for job_id, key in record.put.items()
                          if found.get(job_id, key) != key}, {})


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
