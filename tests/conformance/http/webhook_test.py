#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Webhooks as an operator sees them: settings over HTTP, deliveries to an endpoint of this process,
and what the server says of both; and what /healthz and /readyz say.

    webhook_test.py CARILLON
"""

import os
import re
import sys
import time
import unittest

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crash"))

from client import Server  # pylint: disable=wrong-import-position
from webhook_endpoint import Endpoint  # pylint: disable=wrong-import-position

BINARY = None
SECRET = "a secret of this test"
LIMIT_S = 30


def wait_until(condition, what):
    end = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.01)


class WebhookTest(unittest.TestCase):
    def setUp(self):
        self.server = Server(BINARY, "--webhook-allow", "127.0.0.1", durable=True)
        self.addCleanup(self.server.stop)
        self.endpoint = Endpoint(SECRET)
        self.addCleanup(self.endpoint.close)

    def set(self, tube="t", **members):
        members.setdefault("url", self.endpoint.url)
        return self.server.ask("PUT", f"/api/v1/tubes/{tube}/settings", {"webhook": members})

    def tube(self, tube="t"):
        response = self.server.get(f"/api/v1/tubes/{tube}")
        self.assertEqual(response.status, 200, response)
        return response.json

    def state(self, tube="t"):
        return self.tube(tube)["webhook"]

    def test_headers_of_ones_own_are_sent_and_never_shown(self):
        headers = {"Authorization": "Bearer of the endpoint", "X-Empty": "", "x-b3": "a, b;c=1"}
        self.assertEqual(self.set(headers=headers).status, 204)
        self.assertNotIn(b"of the endpoint", self.server.get("/api/v1/tubes/t").raw)
        self.assertEqual(self.state()["headers"], 3)
        self.server.put()
        wait_until(lambda: len(self.endpoint.taken()) == 1, "a request")
        for name, value in headers.items():
            self.assertEqual(self.endpoint.requests[0].fields[name.lower()], value)
        # What was shown can be sent back, and after a kill they are still there.
        self.assertEqual(self.set().status, 204)
        self.server.kill_and_restart()
        self.server.put()
        wait_until(lambda: len(self.endpoint.taken()) == 2, "a request")
        self.assertEqual(self.endpoint.requests[1].fields["authorization"],
                         headers["Authorization"])
        self.assertEqual(self.set(headers={}).status, 204)
        self.server.put()
        wait_until(lambda: len(self.endpoint.taken()) == 3, "a request")
        self.assertNotIn("authorization", self.endpoint.requests[2].fields)

    def test_headers_that_would_be_the_servers_or_break_the_request_are_refused(self):
        wrong = [{name: "x"} for name in (
            "Host", "content-LENGTH", "Content-Type", "Transfer-Encoding", "Connection",
            "Carillon-Job-Id", "carillon-anything", "Proxy-Authorization", "User-Agent", "TE",
            "Expect", "a b", "a:b", "", "x\r\nY", "ü", "n" * 65)]
        wrong += [{"X-A": value} for value in (
            "a\r\nCarillon-Job-Id: 7", "a\nb", "a\rb", "\0", "é", " a", "a ", "\x7f", "v" * 1025,
            5, None, ["a"])]
        wrong += [{f"X-{i}": "v" for i in range(17)}, {"X-A": "1", "x-a": "2"}]
        for headers in wrong:
            response = self.set(headers=headers)
            self.assertEqual((response.status, response.problem), (422, "invalid-field"),
                             (headers, response))
            self.assertIn("headers", response.json["field"])
        self.assertEqual(self.server.get("/api/v1/tubes/t").status, 404, "something was set")

    def test_a_job_is_posted_when_it_is_due_with_all_that_belongs_to_it(self):
        self.assertEqual(self.set(secrets=[SECRET]).status, 204)
        before = time.time()
        job = self.server.put(body='{"order": 7}', content_type="application/json", key="ord er",
                              delay_ms=300)
        wait_until(self.endpoint.taken, "a request")
        self.assertGreaterEqual(time.time() - before, 0.3)
        seen = self.endpoint.requests[0]
        self.assertEqual(seen.body, b'{"order": 7}')
        for name, value in (("content-type", "application/json"), ("carillon-job-id", job),
                            ("carillon-tube", "t"), ("carillon-attempt", "1"),
                            ("carillon-key", "ord%20er")):
            self.assertEqual(seen.fields[name], value)
        self.assertRegex(seen.fields["carillon-due"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(self.endpoint.unsigned, 0)
        wait_until(lambda: self.state()["delivered"] == 1, "it to be counted")
        self.assertEqual(self.server.get(f"/api/v1/jobs/{job}").status, 404)

    def test_settings_are_shown_without_secrets_and_can_be_sent_back(self):
        self.assertEqual(self.set(secrets=[SECRET, "an older secret!"], concurrency=3,
                                  rate={"count": 5}).status, 204)
        shown = self.tube()["settings"]
        self.assertNotIn("secret", str(shown))
        self.assertEqual(shown["webhook"]["concurrency"], 3)
        self.assertEqual(shown["webhook"]["rate"], {"count": 5, "per_ms": 1000, "burst": 5})
        self.assertEqual(self.state()["secrets"], 2)
        self.assertEqual(self.server.ask("PUT", "/api/v1/tubes/t/settings", shown).status, 204)
        self.assertEqual(self.tube()["settings"], shown)
        self.assertEqual(self.state()["secrets"], 2)

    def test_settings_that_make_no_sense_name_the_member_and_change_nothing(self):
        self.assertEqual(self.set(concurrency=7).status, 204)
        for member, value in (("url", "ftp://x/"), ("url", "http://u:p@x/"), ("concurrency", 0),
                              ("secrets", ["short"]), ("timeout_ms", 1), ("nonsense", 1)):
            response = self.set(**{member: value})
            self.assertIn(response.status, (400, 422), member)
            self.assertEqual(response.json["field"], f"webhook.{member}")
        self.assertEqual(self.tube()["settings"]["webhook"]["concurrency"], 7)

    def test_an_address_that_is_not_permitted_is_refused_when_it_is_set(self):
        for url in ("http://127.0.0.2/", "http://0.0.0.0/", "http://[::ffff:127.0.0.3]/",
                    "http://10.0.0.1/", "https://169.254.169.254/latest", "http://[::1]:8080/",
                    "http://[fd00::1]/", "http://[::ffff:10.0.0.1]/"):
            response = self.set(url=url)
            self.assertEqual((response.status, response.problem), (422, "invalid-field"), response)
            self.assertEqual(response.json["field"], "webhook.url")
            self.assertIn("webhook-allow", response.json["detail"])
        self.assertEqual(self.server.get("/api/v1/tubes/t").status, 404, "something was set")
        # Of a name nobody knows before it is resolved: then it is an error like others, in the log.
        self.assertEqual(self.set(url="http://localhost6.invalid/").status, 204)

    def test_the_log_tells_of_an_endpoint_that_fails_and_of_what_is_buried(self):
        self.assertEqual(self.set(url="http://no-such-host.invalid/", max_attempts=1).status, 204)
        self.server.put()
        self.server.wait_for_log("the webhook of tube t begins to fail: unresolved: ")
        self.server.wait_for_log("the webhook of tube t has buried 1 job, the last failure: ")

    def test_a_server_on_hold_posts_nothing_and_its_schedules_put_nothing_until_it_is_let_go(self):
        self.assertEqual(self.set().status, 204)
        schedule = {"tube": "s", "body": "x", "every_ms": 1000}
        self.assertEqual(self.server.ask("PUT", "/api/v1/schedules/s", schedule).status, 201)
        config = os.path.join(self.server.folder, "carillon.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write("hold = true\n")
        self.server.process.kill()
        self.server.process.wait()
        self.server.options += ["--config", config]
        self.server.start()
        self.server.wait_for_log("hold: webhooks post nothing and schedules put nothing")
        self.server.put()
        before = self.server.get("/api/v1/schedules/s").json["runs"]
        time.sleep(2.5)
        self.assertEqual(self.server.get("/api/v1/schedules/s").json["runs"], before)
        self.assertEqual(self.tube()["jobs"]["ready"], 1)
        self.assertFalse(self.endpoint.taken())
        self.assertEqual(self.server.post("/api/v1/schedules/s/run").status, 503)
        self.assertIn(b"\ncarillon_held 1\n", self.server.get("/metrics").raw)
        with open(config, "w", encoding="utf-8") as file:
            file.write("hold = false\n")
        self.server.signal("HUP")
        self.server.wait_for_log("hold was true and is false")
        wait_until(self.endpoint.taken, "a request")
        wait_until(lambda: self.server.get("/api/v1/schedules/s").json["runs"] > before, "a run")
        self.assertIn(b"\ncarillon_held 0\n", self.server.get("/metrics").raw)

    def test_settings_outlive_a_kill_and_go_when_they_are_taken_away(self):
        self.assertEqual(self.set(secrets=[SECRET]).status, 204)
        self.server.kill_and_restart()
        self.server.put()
        wait_until(self.endpoint.taken, "a request after the restart")
        self.assertEqual(self.endpoint.unsigned, 0)
        response = self.server.ask("PUT", "/api/v1/tubes/t/settings", {})
        self.assertEqual(response.status, 204)
        job = self.server.put()
        self.assertNotIn("webhook", self.tube())
        self.assertEqual(self.server.reserve("t")[0]["id"], job)
        self.assertEqual(len(self.endpoint.taken()), 1)

    def test_an_address_that_is_not_public_is_refused_unless_it_is_allowed(self):
        self.assertEqual(self.set().status, 204)
        self.server.options = []  # What was permitted when it was set is not any more.
        self.server.kill_and_restart()
        self.server.put()
        wait_until(lambda: self.state()["failed_attempts"] >= 1, "an attempt")
        state = self.state()
        self.assertEqual(state["last_outcome"], "refused")
        self.assertIn("is a loopback address, and webhook-allow", state["last_error"])
        self.assertEqual(self.endpoint.connections, 0)

    def test_a_job_that_nobody_takes_is_buried_in_the_end(self):
        self.endpoint.mood = "refuse"
        self.assertEqual(self.set(max_attempts=3, backoff={"base_ms": 10}).status, 204)
        job = self.server.put()
        wait_until(lambda: self.state()["buried"] == 1, "it to be buried")
        self.assertEqual([seen.attempt for seen in self.endpoint.requests], [1, 2, 3])
        self.assertEqual(self.server.get(f"/api/v1/jobs/{job}").json["state"], "buried")
        self.endpoint.mood = "take"
        self.server.post(f"/api/v1/jobs/{job}/kick")
        wait_until(self.endpoint.taken, "it to be taken after a kick")

    def test_a_slow_endpoint_holds_up_nobody_else(self):
        slow = Endpoint()
        self.addCleanup(slow.close)
        slow.mood = "hang"
        self.assertEqual(self.set("slow", url=slow.url, concurrency=50).status, 204)
        self.assertEqual(self.set("quick").status, 204)
        for _ in range(50):
            self.server.put("slow")
        wait_until(lambda: len(slow.requests) >= 20, "the slow endpoint to be busy")
        begun = time.monotonic()
        for _ in range(100):
            self.server.put("quick")
        wait_until(lambda: len(self.endpoint.taken()) == 100, "the quick one")
        self.assertLess(time.monotonic() - begun, 10)

    def test_a_stop_finishes_what_is_being_posted(self):
        self.endpoint.mood = "slow"
        self.assertEqual(self.set().status, 204)
        for _ in range(20):
            self.server.put()
        wait_until(lambda: self.endpoint.requests, "a request")
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual({seen.job for seen in self.endpoint.requests}, self.endpoint.taken())


class HealthTest(unittest.TestCase):
    def ready(self, server):
        response = server.get("/readyz")
        return response.status, response.json

    def test_a_server_is_healthy_and_ready(self):
        with Server(BINARY) as server:
            self.assertEqual(server.get("/healthz").status, 200)
            self.assertEqual(self.ready(server)[0], 200)

    def test_a_server_that_drains_is_healthy_and_not_ready(self):
        with Server(BINARY) as server:
            server.signal("USR1")
            server.wait_for_log("drain mode")
            self.assertEqual(server.get("/healthz").status, 200)
            self.assertEqual(self.ready(server)[0], 503)
            self.assertIn(b"\ncarillon_draining 1\n", server.get("/metrics").raw)

    def test_a_server_with_too_little_space_is_healthy_and_not_ready(self):
        with Server(BINARY, durable=True) as server:
            server.process.kill()
            server.process.wait()
            server.options = ["--min-free-space", "1024GiB"]
            server.start()
            self.assertEqual(server.get("/healthz").status, 200)
            status, problem = self.ready(server)
            self.assertEqual(status, 503)
            self.assertRegex(problem["detail"], r"puts are refused: [0-9.]+ MiB are free on the "
                             r"data folder's disk, less than min-free-space \(1024GiB\)")
            metrics = server.get("/metrics").raw
            self.assertIn(b"\ncarillon_store_accepts_puts 0\n", metrics)
            self.assertIn(b"\ncarillon_store_available 1\n", metrics)
            free = re.search(rb"\ncarillon_store_free_bytes (\S+)\n", metrics)
            self.assertGreater(float(free[1]), 0)
            refused = server.post("/api/v1/tubes/t/jobs", {"body": "x"})
            self.assertEqual((refused.status, refused.json["limit"]), (507, "min-free-space"))


if __name__ == "__main__":
    BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
