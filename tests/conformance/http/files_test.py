#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What shares the open files of a server: its store, its clients and its webhooks take none from
each other.

    files_test.py CARILLON
"""

import os
import socket
import sys
import tempfile
import threading
import time
import unittest

from client import HOST, Server

BINARY = None
LIMIT_S = 20


class Hanging:
    """An endpoint that takes connections and never answers."""

    def __init__(self):
        self.listener = socket.create_server((HOST, 0), backlog=512)
        self.url = f"http://{HOST}:{self.listener.getsockname()[1]}/"
        self.taken = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.taken.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self):
        self.listener.close()
        for one in self.taken:
            one.close()


class FilesTest(unittest.TestCase):
    def start(self, files, *options):
        folder = tempfile.TemporaryDirectory(prefix="carillon-files-")
        self.addCleanup(folder.cleanup)
        limited = os.path.join(folder.name, "carillon")
        with open(limited, "w", encoding="utf-8") as script:
            script.write(f"#!/bin/sh\nulimit -n {files}\nexec '{BINARY}' \"$@\"\n")
        os.chmod(limited, 0o755)
        server = Server(limited, *options, durable=True)
        self.addCleanup(server.stop)
        return server

    def test_endpoints_that_hang_take_no_files_of_the_store_and_the_clients(self):
        server = self.start(300, "--webhook-allow", HOST, "--drain-timeout", "100ms")
        # 300 files: 160 for the store, 35 for webhooks, 105 for clients.
        self.assertIn("webhook-connections is 1000, but the limit of 300 open files allows 35",
                      server.log())
        self.assertIn("max-connections is 16384, but the limit of 300 open files allows 105",
                      server.log())
        idle = [socket.create_connection((HOST, server.beanstalk_port)) for _ in range(60)]
        self.addCleanup(lambda: [one.close() for one in idle])
        endpoints = [Hanging(), Hanging()]
        for number, endpoint in enumerate(endpoints):
            self.addCleanup(endpoint.close)
            response = server.ask("PUT", f"/api/v1/tubes/hook{number}/settings", {
                "webhook": {"url": endpoint.url, "concurrency": 1000, "timeout_ms": 600_000}})
            self.assertEqual(response.status, 204, response)
            batch = [{"body": "x"} for _ in range(200)]
            response = server.post(f"/api/v1/tubes/hook{number}/jobs:batch", batch)
            self.assertEqual(response.status, 200, response)

        def taken():
            return sum(len(endpoint.taken) for endpoint in endpoints)

        deadline = time.monotonic() + LIMIT_S
        while taken() < 25:  # Of two tubes that are slow, the second has half of what is left.
            self.assertLess(time.monotonic(), deadline, taken())
            time.sleep(0.01)
        for _ in range(200):
            server.put(tube="mine", body="x" * 1000)  # It asserts 201.
            self.assertEqual(server.get("/readyz").status, 200)
        self.assertLessEqual(taken(), 35)
        with socket.create_connection((HOST, server.beanstalk_port), timeout=LIMIT_S) as client:
            client.sendall(b"put 0 0 60 1\r\nx\r\n")
            self.assertTrue(client.recv(100).startswith(b"INSERTED"))
        self.assertNotIn("Too many open files", server.log())

    def test_less_than_the_share_is_not_remarked_upon(self):
        server = self.start(1024, "--webhook-connections", "20", "--max-connections", "100")
        self.assertNotIn("open files allows", server.log())


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
