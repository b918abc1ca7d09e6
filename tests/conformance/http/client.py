# SPDX-License-Identifier: Apache-2.0
"""A server with its HTTP port, and requests to it, for the tests in this folder."""

import http.client
import json
import os
import signal
import socket
import subprocess
import tempfile
import time

HOST = "127.0.0.1"
START_LIMIT_S = 30.0
STOP_LIMIT_S = 20.0


class Response:
    """One response: status, headers, raw bytes, and the JSON of those if they are JSON."""

    def __init__(self, status, headers, raw):
        self.status = status
        self.headers = headers
        self.raw = raw
        kind = headers.get("Content-Type", "").split(";")[0]
        self.json = json.loads(raw) if raw and kind in (
            "application/json", "application/problem+json") else None
        self.problem = self.json["type"].rsplit(":", 1)[1] \
            if kind == "application/problem+json" else None

    def __repr__(self):
        return f"{self.status} {self.raw[:300]!r}"


class Server:
    """`carillon serve` with any options, on free ports; its log and data go away with it."""

    def __init__(self, binary, *options, durable=False, scheme="http", environment=None):
        self.binary = binary
        self.options = list(options)
        self.durable = durable
        self.scheme = scheme
        self.environment = environment
        self.folder = tempfile.mkdtemp(prefix="carillon-http-")
        self.data = os.path.join(self.folder, "data")
        self.log_path = os.path.join(self.folder, "log")
        self.process = None
        self.port = self.beanstalk_port = None
        # Told of every exchange: (method, path, response). The test of the description listens.
        self.observers = []
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        store = ["--data", self.data] if self.durable else ["--memory"]
        if self.durable and "--min-free-space" not in self.options:
            store += ["--min-free-space", "0"]
        listen = [] if "--http-listen" in self.options else [
            f"--{self.scheme}-listen", f"{HOST}:0"]
        if self.scheme == "https":
            listen += ["--http-listen", "none"]
        before = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve", *store, "--listen", f"{HOST}:0", *listen, *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            text = self.log()[before:]
            if "HTTP on " in text and "ready after" in text:
                self.port = int(text.split("HTTP on ", 1)[1].split(";", 1)[0].rsplit(":", 1)[1])
                self.beanstalk_port = int(
                    text.split("listens on ", 1)[1].split(",", 1)[0].rsplit(":", 1)[1])
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise RuntimeError(f"the server did not start:\n{self.log()}")

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_for_log(self, text, limit_s=10.0):
        deadline = time.monotonic() + limit_s
        while text not in self.log():
            if time.monotonic() > deadline:
                raise AssertionError(f"the log does not say {text!r}:\n{self.log()[-2000:]}")
            time.sleep(0.01)

    def connect(self, timeout=30):
        return http.client.HTTPConnection(HOST, self.port, timeout=timeout)

    def socket(self, timeout=30):
        return socket.create_connection((HOST, self.port), timeout=timeout)

    def ask(self, method, path, body=None, headers=None, connection=None):
        """One request; `body` is bytes, or anything else as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        own = connection is None
        connection = connection or self.connect()
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            response = Response(answer.status, answer.headers, answer.read())
        finally:
            if own:
                connection.close()
        for observer in self.observers:
            observer(method, path, response)
        return response

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.ask("POST", path, body, **more)

    def put(self, tube="t", connection=None, **members):
        members.setdefault("body", "x")
        response = self.post(f"/api/v1/tubes/{tube}/jobs", members, connection=connection)
        assert response.status == 201, response
        return response.json["id"]

    def reserve(self, *tubes, connection=None, **members):
        response = self.post("/api/v1/reserve", {"tubes": list(tubes) or ["t"], **members},
                             connection=connection)
        assert response.status == 200, response
        return response.json["jobs"]

    def signal(self, name):
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def kill_and_restart(self):
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self):
        """Returns the exit status."""
        status = None
        if self.process is not None:
            if self.process.poll() is None:
                self.process.terminate()
                try:
                    self.process.wait(STOP_LIMIT_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
            status = self.process.returncode
        subprocess.run(["rm", "-rf", self.folder], check=False)
        return status


def raw_exchange(server, data, timeout=10):
    """Sends bytes and returns everything until the server closes or is silent."""
    with server.socket(timeout) as connection:
        connection.sendall(data)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError):
            pass
        return received
