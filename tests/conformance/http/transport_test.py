#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HTTP as bytes on a socket: framing, pipelines, limits, slow and vanishing clients, garbage.

    transport_test.py CARILLON
"""

import json
import random
import re
import socket
import sys
import threading
import time
import unittest

from client import Server, raw_exchange

BINARY = None


def request(method="GET", path="/healthz", body=b"", *headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received)]


CLOSE = "Connection: close"
JSON = "Content-Type: application/json"


class TransportTest(unittest.TestCase):
    options = ("--http-max-header", "4KiB", "--http-max-body", "64KiB", "--http-max-bodies",
               "128KiB", "--http-header-timeout", "700ms", "--http-body-timeout", "700ms",
               "--http-idle-timeout", "900ms", "--http-write-timeout", "1s",
               "--http-max-connections", "40")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(BINARY, *cls.options)

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, "the stop was not clean"

    def exchange(self, data):
        return raw_exchange(self.server, data)

    def assert_alive(self):
        self.assertEqual(self.server.get("/healthz").json, {"status": "ok"})

    def test_pipelined_requests_are_answered_in_order(self):
        bodies = [json.dumps({"body": str(i)}).encode() for i in range(300)]
        data = b"".join(request("POST", "/api/v1/tubes/pipe/jobs", body, JSON) for body in bodies)
        received = self.exchange(data + request("GET", "/healthz", b"", CLOSE))
        self.assertEqual(statuses(received), [201] * 300 + [200])
        ids = [int(found) for found in re.findall(rb'"id":"(\d+)"', received)]
        self.assertEqual(ids, sorted(ids))
        self.assertEqual(len(set(ids)), 300)

    def test_the_type_that_curl_sends_unless_told_is_refused_and_nothing_is_put(self):
        for kind in ("application/x-www-form-urlencoded",
                     "Application/X-WWW-Form-URLencoded; charset=utf-8"):
            response = self.server.ask("POST", "/api/v1/tubes/form/jobs",
                                       b'{"body":"x","delay_ms":60000}', {"Content-Type": kind})
            self.assertEqual((response.status, response.problem), (415, "unsupported-media-type"))
            self.assertEqual(response.json["field"], "Content-Type")
            self.assertIn("application/json", response.json["detail"])
        self.assertEqual(self.server.get("/api/v1/tubes/form").status, 404)

    def test_a_request_may_come_byte_by_byte_and_chunked(self):
        data = request("POST", "/api/v1/tubes/slow/jobs", b"", JSON,
                       "Transfer-Encoding: chunked", CLOSE)
        data += b"5\r\n{\"bod\r\n6;ext=1\r\ny\":\"x\"\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n"
        with self.server.socket() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in data:
                connection.sendall(bytes([byte]))
            received = b""
            while chunk := connection.recv(4096):
                received += chunk
        self.assertEqual(statuses(received), [201])

    def test_http_1_0_and_head(self):
        received = self.exchange(b"GET /healthz HTTP/1.0\r\n\r\n")
        self.assertEqual(statuses(received), [200])
        self.assertIn(b"Connection: close", received)
        received = self.exchange(b"HEAD /api/v1/stats HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Connection: close\r\n\r\n")
        head, _, body = received.partition(b"\r\n\r\n")
        self.assertEqual(body, b"")
        self.assertGreater(int(re.search(rb"Content-Length: (\d+)", head)[1]), 10)

    def test_a_continue_is_sent_when_it_is_waited_for(self):
        body = b'{"body":"x"}'
        with self.server.socket() as connection:
            head = request("POST", "/api/v1/tubes/t/jobs", b"", JSON, "Expect: 100-continue",
                           f"Content-Length: {len(body)}", CLOSE)
            connection.sendall(head)
            self.assertEqual(statuses(connection.recv(4096)), [100])
            connection.sendall(body)
            self.assertEqual(statuses(connection.recv(4096)), [201])
        received = self.exchange(request("POST", "/nowhere", b"", "Expect: 100-continue",
                                         "Content-Length: 5"))
        self.assertEqual(statuses(received), [404])

    def test_http_1_0_knows_no_continue(self):
        for expected in ("100-continue", "a miracle"):
            received = self.exchange(
                b"POST /api/v1/tubes/t/jobs HTTP/1.0\r\nContent-Type: text/plain\r\n"
                b"Content-Length: 1\r\nExpect: " + expected.encode() + b"\r\n\r\nx")
            self.assertEqual(statuses(received), [201])
        with self.server.socket() as connection:
            connection.sendall(b"POST /api/v1/tubes/t/jobs HTTP/1.0\r\nContent-Type: text/plain"
                               b"\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
            self.server.get("/healthz")  # It has been read by then.
            connection.sendall(b"x")
            self.assertEqual(statuses(connection.recv(4096)), [201])

    def test_refusals_of_the_head(self):
        cases = [
            (request("GET", "/nowhere"), 404), (request("BREW", "/healthz"), 405),
            (request("DELETE", "/healthz"), 405), (request("POST", "/index.nothing"), 404),
            (b"GET /healthz HTTP/1.1\r\n\r\n", 400),
            (request("GET", "/healthz", b"", "Host: other"), 400),
            (request("GET", "/%zz"), 400), (request("GET", "http://localhost/healthz"), 400),
            (request("GET", "/a" * 17), 400),
            (b"GET /healthz HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            (request("GET", "/healthz", b"", "X: " + "y" * 5000), 431),
            (request("GET", "/" + "y" * 5000), 431),
            (request("POST", "/api/v1/reserve", b"", "Content-Length: 5",
                     "Transfer-Encoding: chunked"), 400),
            (request("POST", "/api/v1/reserve", b"", "Transfer-Encoding: gzip, chunked"), 501),
            (request("POST", "/api/v1/reserve", b"", "Content-Length: -1"), 400),
            (request("POST", "/api/v1/reserve", b"", "Content-Length: 5", "Content-Length: 6"),
             400),
            (request("POST", "/api/v1/reserve", b"x", "Expect: a miracle"), 417),
            (request("POST", "/api/v1/reserve", b"", "Content-Length: 65537", JSON), 413),
            (request("GET", "/healthz", b"", "Host: evil.example").replace(
                b"Host: localhost\r\n", b""), 421),
        ]
        for data, status in cases:
            received = self.exchange(data.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
                                     if b"Connection" not in data else data)
            self.assertEqual(statuses(received), [status], (data[:200], received[:500]))
            self.assertIn(b"application/problem+json", received)
        allowed = self.exchange(request("POST", "/api/v1/tubes/a/pause", b"", CLOSE))
        self.assertIn(b"Allow: PUT, DELETE\r\n", allowed)
        self.assert_alive()

    def test_a_refused_request_with_a_small_body_leaves_the_connection_open(self):
        received = self.exchange(request("POST", "/nowhere", b"x" * 100) +
                                 request("POST", "/api/v1/reserve", b"x" * 100) +
                                 request("GET", "/healthz", b"", CLOSE))
        self.assertEqual(statuses(received), [404, 415, 200])

    def test_a_body_that_grows_beyond_the_limit_is_cut_off(self):
        head = request("POST", "/api/v1/tubes/t/jobs:batch", b"", "Transfer-Encoding: chunked",
                       JSON)
        with self.server.socket() as connection:
            connection.sendall(head)
            received = b""
            try:
                for _ in range(100):
                    connection.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")
                    time.sleep(0.001)
            except OSError:
                pass
            try:
                received = connection.recv(65536)
            except OSError:
                return  # Reset: it was refused and closed while we went on.
            self.assertEqual(statuses(received), [413])

    def test_bodies_in_memory_are_bounded(self):
        held = []
        for _ in range(2):
            connection = self.server.socket()
            connection.sendall(request("POST", "/api/v1/tubes/t/jobs:batch", b"", JSON,
                                       "Content-Length: 65536") + b" " * 60000)
            held.append(connection)
        time.sleep(0.1)
        received = self.exchange(request("POST", "/api/v1/tubes/t/jobs:batch", b" " * 65536,
                                         JSON, CLOSE))
        self.assertEqual(statuses(received), [503])
        self.assertIn(b"Retry-After", received)
        for connection in held:
            connection.close()

    def test_slow_loris_is_cut_off(self):
        """A byte now and then does not put the deadline off."""
        for data, status in ((b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ", 408),
                             (request("POST", "/api/v1/reserve", b"", JSON,
                                      "Content-Length: 1000"), 408)):
            with self.server.socket(5) as connection:
                began = time.monotonic()
                connection.sendall(data)
                received = b""
                connection.settimeout(0.1)
                while time.monotonic() < began + 5:
                    try:
                        connection.sendall(b"x")
                        chunk = connection.recv(4096)
                    except TimeoutError:
                        continue
                    except OSError:
                        break
                    if not chunk:
                        break
                    received += chunk
                self.assertLess(time.monotonic() - began, 4)
                self.assertEqual(statuses(received), [status])
        self.assert_alive()

    def test_an_idle_connection_is_closed(self):
        with self.server.socket(10) as connection:
            began = time.monotonic()
            self.assertEqual(connection.recv(10), b"")
            self.assertGreater(time.monotonic() - began, 0.8)

    def test_a_client_that_does_not_read_is_closed(self):
        body = json.dumps({"body": "z" * 50000}).encode()
        for _ in range(40):
            self.assertEqual(self.server.ask("POST", "/api/v1/tubes/big/jobs", body,
                                             {"Content-Type": "application/json"}).status, 201)
        get = self.server.put("big", body="y" * 60000)
        with self.server.socket(10) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            began = time.monotonic()
            try:
                while time.monotonic() < began + 8:
                    connection.sendall(request("GET", f"/api/v1/jobs/{get}") * 50)
            except OSError:
                pass
            self.assertLess(time.monotonic() - began, 8)
        self.assert_alive()

    def test_connections_are_bounded(self):
        held = [self.server.socket() for _ in range(40)]
        time.sleep(0.2)
        refused = 0
        for _ in range(10):
            if b"503" in self.exchange(request()):
                refused += 1
        self.assertGreater(refused, 0)
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline and statuses(self.exchange(request(
                "GET", "/healthz", b"", CLOSE))) != [200]:
            time.sleep(0.05)
        self.assert_alive()

    def test_garbage(self):
        random.seed(7)
        seeds = [request("POST", "/api/v1/tubes/t/jobs", b'{"body":"x"}', JSON),
                 request("POST", "/api/v1/reserve", b'{"tubes":["t"],"max":3}', JSON),
                 request("GET", "/api/v1/tubes/t/jobs?state=ready&limit=3")]
        for i in range(300):
            data = bytearray(random.choice(seeds))
            for _ in range(random.randrange(1, 8)):
                at = random.randrange(len(data))
                if random.random() < 0.5:
                    data[at] = random.randrange(256)
                else:
                    del data[at:at + random.randrange(5)]
            if i % 3 == 0:
                data = bytearray(random.randbytes(random.randrange(1, 3000)))
            with self.server.socket(5) as connection:
                connection.sendall(bytes(data))
                connection.shutdown(socket.SHUT_WR)
                received = b""
                try:
                    while chunk := connection.recv(65536):
                        received += chunk
                except ConnectionResetError:
                    pass
                self.assertNotIn(500, statuses(received), data)
        self.assert_alive()

    def test_a_reserve_does_not_hold_up_others_and_a_half_closed_client_gets_its_answer(self):
        body = b'{"tubes":["nothing"],"wait_ms":60000}'
        with self.server.socket(20) as connection:
            connection.sendall(request("POST", "/api/v1/reserve", body, JSON))
            for _ in range(20):
                self.assert_alive()
            connection.shutdown(socket.SHUT_WR)
            self.assertIn(b'{"jobs":[]}', connection.recv(4096))


class DrainTest(unittest.TestCase):
    def test_a_stop_answers_what_waits(self):
        server = Server(BINARY, durable=True)
        try:
            answers = []
            threads = [threading.Thread(target=lambda: answers.append(
                server.reserve("t", wait_ms=60000))) for _ in range(5)]
            for thread in threads:
                thread.start()
            while server.get("/api/v1/stats").json["http"]["waiting"] < 5:
                pass
            events = server.socket()
            events.sendall(request("GET", "/api/v1/events"))
            self.assertIn(b"event-stream", events.recv(4096))
            server.signal("TERM")
            for thread in threads:
                thread.join()
            self.assertEqual(answers, [[]] * 5)
            self.assertEqual(server.process.wait(10), 0)
            events.close()
        finally:
            server.stop()

    def test_drain_mode_refuses_puts_only(self):
        with Server(BINARY) as server:
            server.put("t")
            server.signal("USR1")
            server.wait_for_log("drain mode")
            for path, body in (("jobs", {"body": "x"}), ("jobs:batch", [{"body": "x"}])):
                response = server.post(f"/api/v1/tubes/t/{path}", body)
                self.assertEqual((response.status, response.problem), (503, "draining"))
                self.assertIn("Retry-After", response.headers)
            self.assertEqual(server.get("/readyz").status, 503)
            self.assertEqual(len(server.reserve("t")), 1)

    def test_two_servers_on_the_default_port(self):
        with Server(BINARY, "--http-listen", "127.0.0.1:0") as first:
            port = f"127.0.0.1:{first.port}"
            with self.assertRaises(RuntimeError) as raised:
                Server(BINARY, "--http-listen", port)
            self.assertIn("http-listen", str(raised.exception))


class EventsTest(unittest.TestCase):
    def test_statistics_come_every_second(self):
        with Server(BINARY) as server, server.socket(10) as connection:
            connection.sendall(request("GET", "/api/v1/events"))
            received = b""
            began = time.monotonic()
            while received.count(b"event: stats\n") < 3:
                received += connection.recv(65536)
            self.assertLess(time.monotonic() - began, 6)
            data = received.split(b"event: stats\ndata: ", 1)[1].split(b"\n\n")[0]
            self.assertIn("jobs", json.loads(data))


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main(verbosity=1)
