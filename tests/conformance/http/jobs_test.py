#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs over HTTP against the real server: put, reserve, answer, look after.

    jobs_test.py CARILLON
"""

import base64
import json
import socket
import sys
import threading
import time
import unittest

from client import HOST, Server

BINARY = None


class HttpTest(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(BINARY, *cls.options)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "the stop was not clean"

    def setUp(self):
        self.tube = "t" + str(time.monotonic_ns())

    def put(self, **members):
        return self.server.put(self.tube, **members)

    def reserve(self, **members):
        return self.server.reserve(self.tube, **members)

    def path(self, rest=""):
        return f"/api/v1/tubes/{self.tube}{rest}"

    def assert_problem(self, response, status, name, field=None, limit=None):
        self.assertEqual((response.status, response.problem), (status, name), response)
        self.assertEqual(response.json["status"], status)
        if field is not None:
            self.assertEqual(response.json.get("field"), field, response)
        if limit is not None:
            self.assertIn(limit, response.json.get("limit", ""), response)

    def count(self):
        """Jobs in the tube of this test."""
        response = self.server.get(self.path())
        return sum(n for state, n in response.json["jobs"].items() if state != "urgent") \
            if response.status == 200 else 0


class PutTest(HttpTest):
    def test_a_job_goes_round(self):
        response = self.server.post(self.path("/jobs"), {"body": "hello", "ttr_ms": 5000})
        self.assertEqual(response.status, 201)
        job_id = response.json["id"]
        self.assertEqual(response.headers["Location"], f"/api/v1/jobs/{job_id}")
        [job] = self.reserve()
        self.assertEqual((job["id"], job["body"], job["tube"], job["ttr_ms"], job["attempt"]),
                         (job_id, "hello", self.tube, 5000, 1))
        response = self.server.post(f"/api/v1/jobs/{job_id}/ack", {"receipt": job["receipt"]})
        self.assertEqual((response.status, response.json), (200, {"id": job_id,
                                                                  "state": "deleted"}))
        self.assertEqual(self.count(), 0)

    def test_a_raw_body_comes_back_with_its_content_type(self):
        body = bytes(range(256))
        response = self.server.ask(
            "POST", self.path("/jobs?delay_ms=0&priority=7&ttr_ms=9000&key=raw%2F1"), body,
            {"Content-Type": "image/png"})
        self.assertEqual(response.status, 201, response)
        job_id = response.json["id"]
        got = self.server.get(f"/api/v1/jobs/{job_id}/body")
        self.assertEqual((got.raw, got.headers["Content-Type"]), (body, "image/png"))
        self.assertIn("sandbox", got.headers["Content-Security-Policy"])
        [job] = self.reserve()
        self.assertEqual(base64.b64decode(job["body_base64"]), body)
        self.assertEqual((job["priority"], job["key"], job["content_type"]),
                         (7, "raw/1", "image/png"))

    def test_a_delay_is_kept_to_the_millisecond(self):
        self.put(delay_ms=300)
        began = time.monotonic()
        [_] = self.reserve(wait_ms=5000)
        took = time.monotonic() - began
        self.assertGreaterEqual(took, 0.29)
        self.assertLess(took, 2)

    def test_a_date_is_kept(self):
        for due in (int(time.time() * 1000) + 400,
                    time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime(time.time()))):
            job_id = self.put(due_at=due)
            job = self.server.get(f"/api/v1/jobs/{job_id}").json
            if job["state"] == "delayed" and isinstance(due, str):
                self.assertEqual(job["due_at"], due)
            [job] = self.reserve(wait_ms=5000)
            self.assertEqual(job["id"], job_id)
            if isinstance(due, int):
                self.assertGreaterEqual(time.time() * 1000, due)

    def test_every_wrong_member_is_named_with_its_limit_and_changes_nothing(self):
        cases = [
            ({"body": 5}, "body", "UTF-8"),
            ({"body_base64": "!"}, "body_base64", "RFC 4648"),
            ({"body": "x", "body_base64": ""}, "body_base64", "one of the two"),
            ({}, "body", "has to be given"),
            ({"body": "x", "delay_ms": -1}, "delay_ms", "0 to 4294967295000"),
            ({"body": "x", "delay_ms": 4294967295001}, "delay_ms", "0 to 4294967295000"),
            ({"body": "x", "delay_ms": 1.5}, "delay_ms", "0 to"),
            ({"body": "x", "delay_ms": "1"}, "delay_ms", "0 to"),
            ({"body": "x", "delay_ms": 2**63}, "delay_ms", "0 to"),
            ({"body": "x", "due_at": "tomorrow"}, "due_at", "RFC 3339"),
            ({"body": "x", "due_at": "2030-02-30T00:00:00Z"}, "due_at", "RFC 3339"),
            ({"body": "x", "due_at": 1, "delay_ms": 1}, "due_at", "one of the two"),
            ({"body": "x", "priority": 2**32}, "priority", "0 to 4294967295"),
            ({"body": "x", "ttr_ms": 0}, "ttr_ms", "1 to"),
            ({"body": "x", "key": ""}, "key", "1 to 200"),
            ({"body": "x", "key": "k" * 201}, "key", "1 to 200"),
            ({"body": "x", "key": "a\nb"}, "key", "control"),
            ({"body": "x", "on_conflict": "return"}, "on_conflict", "a key"),
            ({"body": "x", "key": "k", "on_conflict": "burn"}, "on_conflict",
             "return, replace, refuse"),
            ({"body": "x", "max_attempts": 0}, "max_attempts", "1 to"),
            ({"body": "x", "backoff": {}}, "backoff.base_ms", "has to be given"),
            ({"body": "x", "backoff": {"base_ms": 0}}, "backoff.base_ms", "1 to"),
            ({"body": "x", "backoff": {"base_ms": 10, "cap_ms": 9}}, "backoff.cap_ms", "10 to"),
            ({"body": "x", "backoff": {"base_ms": 10, "jitter": 1}}, "backoff.jitter", "true"),
            ({"body": "x", "backoff": 7}, "backoff", "object"),
            ({"body": "x", "content_type": "png"}, "content_type", "type/subtype"),
            ({"body": "x", "content_type": "a/b\r\nSet-Cookie: x"}, "content_type", "ASCII"),
        ]
        for members, field, limit in cases:
            response = self.server.post(self.path("/jobs"), members)
            self.assert_problem(response, 422, "invalid-field", field, limit)
        self.assert_problem(self.server.post(self.path("/jobs"), {"body": "x", "delay": 1}),
                            422, "unknown-field", "delay")
        self.assert_problem(self.server.post(self.path("/jobs"),
                                             {"body": "x", "backoff": {"base_ms": 1, "x": 1}}),
                            422, "unknown-field", "backoff.x")
        for raw, name in [(b"", "malformed-json"), (b"{", "malformed-json"),
                          (b'{"body":"x"} x', "malformed-json"), (b"[" * 99, "malformed-json"),
                          (b'{"body":"\xff"}', "malformed-json")]:
            response = self.server.ask("POST", self.path("/jobs"), raw,
                                       {"Content-Type": "application/json"})
            self.assert_problem(response, 400, name, "body")
        for raw, field in [(b'[{"body":"x"}]', "body"), (b'"x"', "body"), (b"null", "body"),
                           (b'{"body":"a","body":"b"}', "body"),
                           (b'{"body":"\\udc00"}', "body")]:
            response = self.server.ask("POST", self.path("/jobs"), raw,
                                       {"Content-Type": "application/json"})
            self.assertIn(response.status, (400, 422), response)
            self.assertEqual(response.json["field"], field)
        for query, field in [("delay_ms=x", "delay_ms"), ("nonsense=1", "nonsense"),
                             ("delay_ms=1&delay_ms=2", "delay_ms"), ("key=%ff", "key"),
                             ("backoff.base_ms=0", "backoff.base_ms"), ("due_at=5&delay_ms=5",
                                                                        "due_at")]:
            response = self.server.ask("POST", self.path("/jobs?" + query), b"x",
                                       {"Content-Type": "text/plain"})
            self.assertEqual(response.status, 422, response)
            self.assertEqual(response.json["field"], field)
        self.assertEqual(self.count(), 0)

    def test_a_job_beyond_the_limit_is_refused_with_the_limit(self):
        for response in (
                self.server.post(self.path("/jobs"), {"body": "x" * 65536}),
                self.server.post(self.path("/jobs"),
                                 {"body_base64": base64.b64encode(bytes(65536)).decode()}),
                self.server.ask("POST", self.path("/jobs"), bytes(65536),
                                {"Content-Type": "application/octet-stream"})):
            self.assert_problem(response, 413, "too-large", limit="max-job-size is 65535")
        self.put(body="x" * 65535)
        self.assertEqual(self.count(), 1)

    def test_a_wrong_tube_is_named(self):
        for tube in ("-x", "a%20b", "x" * 201, "%ff"):
            response = self.server.post(f"/api/v1/tubes/{tube}/jobs", {"body": "x"})
            self.assert_problem(response, 422, "invalid-field", "tube", "1 to 200")
        self.assertEqual(self.server.post("/api/v1/tubes/a%2Fb/jobs", {"body": "x"}).status, 201)

    def test_a_job_put_for_a_date_keeps_it_when_that_has_come(self):
        due = int(time.time() * 1000) + 50
        self.put(due_at=due)
        [job] = self.reserve(wait_ms=5000)
        self.assertRegex(job["due_at"], f"\\.{due % 1000:03}Z$")


class RoomTest(HttpTest):
    options = ("--max-tubes", "2", "--max-jobs-in-memory", "2")

    def test_a_refusal_names_the_limit_that_is_reached(self):
        self.put()
        refused = self.server.post("/api/v1/tubes/another/jobs", {"body": "x"})
        self.assert_problem(refused, 507, "no-room", limit="max-tubes")
        self.put()
        refused = self.server.post(self.path("/jobs"), {"body": "x"})
        self.assert_problem(refused, 507, "no-room", limit="max-jobs-in-memory")
        self.assertEqual((refused.headers["Retry-After"], self.count()), ("5", 2))


class KeyTest(HttpTest):
    def test_a_known_key_returns_refuses_or_replaces(self):
        first = self.put(key="k", body="1", delay_ms=60000)
        again = self.server.post(self.path("/jobs"), {"key": "k", "body": "2"})
        self.assertEqual((again.status, again.json), (200, {"id": first, "existing": True}))
        refused = self.server.post(self.path("/jobs"),
                                   {"key": "k", "body": "2", "on_conflict": "refuse"})
        self.assert_problem(refused, 409, "key-exists")
        self.assertEqual(refused.json["id"], first)
        replaced = self.server.post(self.path("/jobs"),
                                    {"key": "k", "body": "2", "on_conflict": "replace"})
        self.assertEqual(replaced.status, 201)
        self.assertTrue(replaced.json["replaced"])
        self.assertEqual(self.count(), 1)
        [job] = self.reserve()
        self.assertEqual((job["id"], job["body"], job["key"]), (replaced.json["id"], "2", "k"))
        held = self.server.post(self.path("/jobs"),
                                {"key": "k", "body": "3", "on_conflict": "replace"})
        self.assert_problem(held, 409, "job-reserved")

    def test_a_job_is_reached_by_its_key(self):
        job_id = self.put(key="a/b c", body="x", delay_ms=60000)
        path = self.path("/keys/a%2Fb%20c")
        self.assertEqual(self.server.get(path).json["id"], job_id)
        self.assertEqual(self.server.get(path + "/body").raw, b"x")
        changed = self.server.ask("PATCH", path, {"priority": 3})
        self.assertEqual((changed.status, changed.json["priority"]), (200, 3), changed)
        self.assertEqual(self.server.post(path + "/kick").status, 200)
        self.assertEqual(self.server.get(path).json["state"], "ready")
        self.assertEqual(self.server.ask("DELETE", path).status, 204)
        self.assert_problem(self.server.get(path), 404, "no-such-job")


class BatchTest(HttpTest):
    def test_ten_thousand_in_one_request_each_with_its_result(self):
        lines = [{"body": str(i), "delay_ms": 60000} for i in range(10000)]
        lines[17] = {"body": 1}
        raw = "\n".join(map(json.dumps, lines)).encode()
        response = self.server.ask("POST", self.path("/jobs:batch"), raw,
                                   {"Content-Type": "application/x-ndjson"})
        self.assertEqual(response.status, 200)
        results = [json.loads(line) for line in response.raw.splitlines()]
        self.assertEqual(len(results), 10000)
        self.assertEqual(results[17]["problem"]["field"], "jobs[17].body")
        ids = [int(r["id"]) for i, r in enumerate(results) if i != 17]
        self.assertEqual(ids, sorted(set(ids)))
        self.assertEqual(self.count(), 9999)

    def test_an_array_is_answered_by_an_array(self):
        response = self.server.post(self.path("/jobs:batch"),
                                    [{"body": "a"}, {"body": "b", "ttr_ms": 0}, 7])
        self.assertEqual([r["status"] for r in response.json["results"]], [201, 422, 422])
        self.assertEqual(response.json["results"][2]["problem"]["field"], "jobs[2]")
        self.assertEqual(self.count(), 1)

    def test_too_many_none_and_nonsense_change_nothing(self):
        self.assert_problem(self.server.post(self.path("/jobs:batch"), [{"body": ""}] * 10001),
                            413, "too-large", "body", "1 to 10000")
        self.assert_problem(self.server.post(self.path("/jobs:batch"), []), 422,
                            "invalid-field", "body", "1 to 10000")
        self.assert_problem(self.server.post(self.path("/jobs:batch"), {"body": "x"}), 422,
                            "invalid-field", "body")
        self.assert_problem(self.server.ask("POST", self.path("/jobs:batch"), b"x",
                                            {"Content-Type": "text/plain"}),
                            415, "unsupported-media-type", "Content-Type")
        self.assertEqual(self.count(), 0)

    def test_a_broken_line_spoils_no_other(self):
        response = self.server.ask("POST", self.path("/jobs:batch"),
                                   b'{"body":"a"}\n{"body":\n\r\n{"body":"b"}\r\n',
                                   {"Content-Type": "application/x-ndjson"})
        self.assertEqual([json.loads(line)["status"] for line in response.raw.splitlines()],
                         [201, 400, 201])


class ReserveTest(HttpTest):
    def test_many_at_once_over_several_tubes(self):
        other = self.tube + "b"
        for i in range(40):
            self.put(body=str(i))
            self.server.put(other, body=str(i))
        jobs = self.server.reserve(self.tube, other, max=1000)
        self.assertEqual(len(jobs), 80)
        self.assertEqual(len({job["id"] for job in jobs}), 80)
        results = self.server.post("/api/v1/ack", {"jobs": [
            {"id": job["id"], "receipt": job["receipt"]} for job in jobs]}).json["results"]
        self.assertEqual({r["status"] for r in results}, {200})
        self.assertEqual(self.reserve(max=5), [])

    def test_a_long_backlog_of_one_tenant_starves_no_other(self):
        big, small = self.tube + "-big", self.tube + "-small"
        for _ in range(3):
            self.server.post(f"/api/v1/tubes/{big}/jobs:batch", [{"body": "x"}] * 1000)
        self.server.post(f"/api/v1/tubes/{small}/jobs:batch", [{"body": "x"}] * 10)
        one_by_one = [job["tube"] for _ in range(10) for job in self.server.reserve(big, small)]
        # By turns; over several partitions about so.
        self.assertIn(one_by_one.count(small), (5,) if not self.options else range(3, 8))
        many = [job["tube"] for job in self.server.reserve(big, small, max=100)]
        self.assertEqual(len(many), 100)
        self.assertEqual(one_by_one.count(small) + many.count(small), 10)
        urgent = self.server.post(f"/api/v1/tubes/{big}/jobs", {"body": "!", "priority": 5})
        [job] = self.server.reserve(small, big)
        self.assertEqual(job["id"], urgent.json["id"], "priority goes before turns")

    def left_ms(self, job):
        found = self.server.get(f"/api/v1/jobs/{job['id']}").json
        self.assertEqual(found["ttr_ms"], 60000)  # The job's own stays what it is.
        return found["time_left_ms"]  # Rounded up, by one at most.

    def test_a_reserve_may_say_how_long_its_reservations_last(self):
        for ttr_ms in (1, 4294967295000):
            self.put()
            self.assertEqual(len(self.reserve(ttr_ms=ttr_ms)), 1)
        for ttr_ms in (0, -1, 4294967295001):
            response = self.server.post("/api/v1/reserve",
                                        {"tubes": [self.tube], "ttr_ms": ttr_ms})
            self.assert_problem(response, 422, "invalid-field", "ttr_ms")
        self.tube += "-next"  # Where none of those comes back.
        self.put()
        self.put()
        short, other = self.reserve(max=2, ttr_ms=200)
        self.assertLessEqual(self.left_ms(short), 201)
        touched = self.server.post(f"/api/v1/jobs/{other['id']}/touch",
                                   {"receipt": other["receipt"], "ttr_ms": 30000})
        self.assertEqual(touched.status, 200)
        self.assertTrue(20000 < self.left_ms(other) <= 30001)
        self.server.post(f"/api/v1/jobs/{other['id']}/touch", {"receipt": other["receipt"]})
        self.assertTrue(50000 < self.left_ms(other) <= 60001)
        again = self.reserve(wait_ms=5000)
        self.assertEqual([job["id"] for job in again], [short["id"]])
        self.assertEqual(again[0]["attempt"], 2)
        self.assertGreater(self.left_ms(again[0]), 50000)

    def test_a_reserve_that_waited_gives_its_own_ttr(self):
        got = []
        thread = threading.Thread(
            target=lambda: got.extend(self.reserve(wait_ms=10000, ttr_ms=500)))
        thread.start()
        time.sleep(0.1)
        self.put()
        thread.join()
        self.assertLessEqual(self.left_ms(got[0]), 501)

    def test_many_workers_share_a_burst(self):
        jobs = [{"body": "x", "delay_ms": 300}] * 2000
        for _ in range(2):
            self.server.post(self.path("/jobs:batch"), jobs)
        done = []

        def work():
            while jobs := self.reserve(max=64, wait_ms=1500):
                receipts = [{"id": job["id"], "receipt": job["receipt"]} for job in jobs]
                answer = self.server.post("/api/v1/ack", {"jobs": receipts})
                done.extend(result["status"] for result in answer.json["results"])

        workers = [threading.Thread(target=work) for _ in range(16)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(done, [200] * 4000)

    def test_a_long_poll_is_served_by_a_put(self):
        got = []
        thread = threading.Thread(target=lambda: got.extend(self.reserve(wait_ms=20000)))
        thread.start()
        while self.server.get(self.path()).status != 200 or \
                self.server.get(self.path()).json["waiting"] == 0:
            pass
        job_id = self.put()
        thread.join()
        self.assertEqual([job["id"] for job in got], [job_id])

    def test_a_long_poll_ends_empty(self):
        began = time.monotonic()
        self.assertEqual(self.reserve(wait_ms=200), [])
        self.assertGreaterEqual(time.monotonic() - began, 0.19)

    def test_another_connection_acknowledges(self):
        job_id = self.put()
        connection = self.server.connect()
        [job] = self.server.reserve(self.tube, connection=connection)
        connection.close()
        self.assertEqual(self.server.post(f"/api/v1/jobs/{job_id}/ack",
                                          {"receipt": job["receipt"]}).status, 200)

    def test_a_client_that_vanishes_gives_back_what_it_was_granted(self):
        for _ in range(5):
            connection = self.server.socket()
            body = json.dumps({"tubes": [self.tube], "wait_ms": 20000}).encode()
            connection.sendall(b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                               b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                               % len(body) + body)
            while self.server.get(self.path()).status != 200 or \
                    self.server.get(self.path()).json["waiting"] == 0:
                pass
            connection.close()
            job_id = self.put()
            [job] = self.reserve(wait_ms=5000)
            self.assertEqual(job["id"], job_id)
            self.server.post(f"/api/v1/jobs/{job_id}/ack", {"receipt": job["receipt"]})

    def test_wrong_requests_reserve_nothing(self):
        self.put()
        for members, field in [({}, "tubes"), ({"tubes": []}, "tubes"),
                               ({"tubes": ["a b"]}, "tubes[0]"), ({"tubes": [1]}, "tubes[0]"),
                               ({"tubes": [self.tube] * 101}, "tubes"),
                               ({"tubes": [self.tube], "max": 0}, "max"),
                               ({"tubes": [self.tube], "max": 1001}, "max"),
                               ({"tubes": [self.tube], "wait_ms": 300001}, "wait_ms"),
                               ({"tubes": [self.tube], "wait": 1}, "wait")]:
            response = self.server.post("/api/v1/reserve", members)
            self.assertEqual((response.status, response.json["field"]), (422, field), response)
        self.assertEqual(self.server.get(self.path()).json["jobs"]["reserved"], 0)


class AnswerTest(HttpTest):
    def answer(self, job, verb, **members):
        return self.server.post(f"/api/v1/jobs/{job['id']}/{verb}",
                                {"receipt": job["receipt"], **members})

    def test_release_keeps_or_sets_priority_and_delay(self):
        self.put(priority=5)
        [job] = self.reserve()
        self.assertEqual(self.answer(job, "release").json["state"], "released")
        [job] = self.reserve()
        self.assertEqual((job["priority"], job["attempt"]), (5, 2))
        self.answer(job, "release", priority=9, delay_ms=60000)
        now = self.server.get(f"/api/v1/jobs/{job['id']}").json
        self.assertEqual((now["state"], now["priority"]), ("delayed", 9))

    def test_bury_and_kick(self):
        self.put()
        [job] = self.reserve()
        self.assertEqual(self.answer(job, "bury").json["state"], "buried")
        self.assertEqual(self.server.get(f"/api/v1/jobs/{job['id']}").json["state"], "buried")
        self.assertEqual(self.server.post(f"/api/v1/jobs/{job['id']}/kick").json["state"], "ready")
        [job] = self.reserve()
        self.answer(job, "bury")
        self.assertEqual(self.server.post(self.path("/kick"), {"count": 10}).json["kicked"], 1)

    def test_touch_gives_more_time(self):
        self.put(ttr_ms=4000)
        [job] = self.reserve()
        for _ in range(3):
            time.sleep(1.5)
            self.assertEqual(self.answer(job, "touch").json["state"], "reserved")
        self.assertEqual(self.answer(job, "ack").status, 200)

    def test_a_stale_receipt_hits_nobody(self):
        self.put(ttr_ms=100)
        [first] = self.reserve()
        [second] = self.reserve(wait_ms=5000)
        self.assertEqual(second["attempt"], 2)
        for verb in ("ack", "release", "bury", "touch"):
            self.assert_problem(self.answer(first, verb), 409, "stale-receipt", "receipt")
        [result] = self.server.post("/api/v1/ack", {"jobs": [
            {"id": first["id"], "receipt": first["receipt"]}]}).json["results"]
        self.assertEqual(result["status"], 409)
        for receipt in ("0000000000000000.1", "f" * 16 + ".0"):
            self.assert_problem(self.answer({**second, "receipt": receipt}, "ack"), 409,
                                "stale-receipt")
        for receipt in ("", "x", "f" * 16, "f" * 16 + ".", "f" * 16 + ".-1", 5):
            response = self.answer({**second, "receipt": receipt}, "ack")
            self.assert_problem(response, 422, "invalid-field", "receipt")

    def test_attempts_are_used_up_with_backoff(self):
        job_id = self.put(max_attempts=2, backoff={"base_ms": 300})
        [job] = self.reserve()
        self.answer(job, "release")
        began = time.monotonic()
        [job] = self.reserve(wait_ms=10000)
        self.assertGreaterEqual(time.monotonic() - began, 0.25)
        self.assertEqual(self.answer(job, "release").json["state"], "buried")
        self.assertEqual(self.server.get(f"/api/v1/jobs/{job_id}").json["state"], "buried")


class LookAfterTest(HttpTest):
    def test_get_cancel_and_change(self):
        job_id = self.put(body="b", delay_ms=60000)
        job = self.server.get(f"/api/v1/jobs/{job_id}").json
        self.assertEqual((job["body"], job["state"], job["size"]), ("b", "delayed", 1))
        self.assertNotIn("body", self.server.get(f"/api/v1/jobs/{job_id}?body=false").json)
        changed = self.server.ask("PATCH", f"/api/v1/jobs/{job_id}", {"delay_ms": 120000})
        self.assertEqual(changed.status, 200, changed)
        self.assertGreater(changed.json["due_in_ms"], 60000)
        self.assertEqual(changed.json["id"], job_id)
        self.server.ask("PATCH", f"/api/v1/jobs/{job_id}", {"delay_ms": 0, "priority": 1})
        self.assertEqual(self.server.get(f"/api/v1/jobs/{job_id}").json["state"], "ready")
        [_] = self.reserve()
        self.assert_problem(self.server.ask("DELETE", f"/api/v1/jobs/{job_id}"), 409,
                            "job-reserved")
        self.assert_problem(self.server.ask("PATCH", f"/api/v1/jobs/{job_id}", {"priority": 1}),
                            409, "job-reserved")
        other = self.put()
        self.assertEqual(self.server.ask("DELETE", f"/api/v1/jobs/{other}").status, 204)
        self.assert_problem(self.server.ask("DELETE", f"/api/v1/jobs/{other}"), 404,
                            "no-such-job")

    def test_unknown_jobs_and_ids(self):
        for method, rest, body in [("GET", "", None), ("GET", "/body", None), ("DELETE", "", None),
                                   ("POST", "/kick", None), ("PATCH", "", {"priority": 1})]:
            self.assert_problem(self.server.ask(method, f"/api/v1/jobs/999999999{rest}", body),
                                404, "no-such-job")
            for wrong in ("0", "x", "-1", str(2**64)):
                self.assert_problem(self.server.ask(method, f"/api/v1/jobs/{wrong}{rest}", body),
                                    422, "invalid-field", "id")
        self.assert_problem(self.server.ask("PATCH", "/api/v1/jobs/9", {}), 422, "invalid-field")

    def test_a_listing_shows_each_job_once(self):
        ids = [self.put(delay_ms=60000 + 7 * (i % 5), key=f"k{i:03}") for i in range(25)]
        seen, cursor = [], ""
        while True:
            page = self.server.get(
                self.path(f"/jobs?state=delayed&limit=7{cursor}")).json
            seen += [job["id"] for job in page["jobs"]]
            if "next" not in page:
                break
            cursor = "&cursor=" + page["next"]
        self.assertEqual(sorted(seen), sorted(ids))
        page = self.server.get(self.path("/jobs?state=delayed&key_prefix=k01")).json
        self.assertEqual({job["key"] for job in page["jobs"]}, {f"k01{i}" for i in range(10)})
        everywhere = self.server.get("/api/v1/jobs?state=delayed&limit=1000&key_prefix=k024").json
        self.assertIn(ids[24], [job["id"] for job in everywhere["jobs"]])
        for query, field in [("limit=0", "limit"), ("limit=1001", "limit"), ("state=x", "state"),
                             ("cursor=zz", "cursor"), ("x=1", "x"), ("due_from=x", "due_from")]:
            response = self.server.get(self.path("/jobs?" + query))
            self.assertEqual((response.status, response.json["field"]), (422, field), response)


class PartitionsTest(ReserveTest):
    options = ("--partitions", "3")

    def test_no_more_jobs_come_than_were_asked_for(self):
        tubes = [f"{self.tube}-{i}" for i in range(8)]  # Of all the partitions.
        for tube in tubes:
            self.server.post(f"/api/v1/tubes/{tube}/jobs:batch", [{"body": "x"}] * 3)
        got = []
        for most in [1] * 12 + [2] * 6:
            jobs = self.server.reserve(*tubes, max=most)
            self.assertEqual(len(jobs), most)
            got += jobs
        self.assertEqual(len({job["id"] for job in got}), 24)
        self.assertEqual({job["attempt"] for job in got}, {1})
        self.assertEqual(self.server.reserve(*tubes), [])


class TubeTest(HttpTest):
    def test_list_pause_resume(self):
        self.put()
        self.assertIn(self.tube, [tube["name"] for tube in
                                  self.server.get("/api/v1/tubes").json["tubes"]])
        self.assertEqual(self.server.ask("PUT", self.path("/pause"), {"for_ms": 60000}).status,
                         204)
        self.assertEqual(self.reserve(), [])
        self.assertGreater(self.server.get(self.path()).json["pause_left_ms"], 50000)
        self.assertEqual(self.server.ask("DELETE", self.path("/pause")).status, 204)
        self.assertEqual(len(self.reserve()), 1)
        for method, rest, body in [("GET", "", None), ("PUT", "/pause", {"for_ms": 1}),
                                   ("DELETE", "/pause", None)]:
            self.assert_problem(
                self.server.ask(method, f"/api/v1/tubes/nobody.{self.tube}{rest}", body), 404,
                "no-such-tube")
        for body, field in [({}, "for_ms"), ({"for_ms": 0}, "for_ms"), ({"for_ms": "1"}, "for_ms")]:
            response = self.server.ask("PUT", self.path("/pause"), body)
            self.assert_problem(response, 422, "invalid-field", field)

    def test_clear(self):
        for i in range(30):
            self.put(delay_ms=60000 * (i % 2) * 20)
        [_] = self.reserve()
        response = self.server.post(self.path("/clear"), {"states": ["ready", "delayed"]})
        self.assertEqual((response.status, response.json), (200, {"cleared": 29}))
        self.assertEqual(self.count(), 1)
        self.assert_problem(self.server.post(self.path("/clear"), {"states": ["reserved"]}), 422,
                            "invalid-field", "states[0]")

    def test_a_limit_of_jobs(self):
        self.assertEqual(self.server.ask("PUT", self.path("/settings"), {"max_jobs": 2}).status,
                         204)
        self.put()
        self.put()
        response = self.server.post(self.path("/jobs"), {"body": "x"})
        self.assert_problem(response, 429, "tube-full")
        self.assertEqual(self.server.get(self.path()).json["settings"]["max_jobs"], 2)
        with socket.create_connection((HOST, self.server.beanstalk_port), timeout=20) as client:
            client.sendall(b"use %s\r\nput 0 9 60 1\r\nx\r\nquit\r\n" % self.tube.encode())
            said = b"".join(iter(lambda: client.recv(4096), b""))
        self.assertEqual(said.split(b"\r\n")[1], b"OUT_OF_MEMORY")


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
