# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the server that a conformance test talks to.

A server is named KIND=PATH, where KIND says how it is started and which dialect the test expects
of it (`carillon` or `beanstalkd`). Each server listens on a free port of 127.0.0.1 and keeps its
log, and its data if it is durable, in a temporary folder that goes away with it.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

KINDS = ("carillon", "beanstalkd")
EXIT_SKIPPED = 77  # CTest's SKIP_RETURN_CODE: the server or client under test is not installed
HOST = "127.0.0.1"
START_LIMIT_S = 20.0
STOP_LIMIT_S = 10.0


class ServerError(Exception):
    """The server did not start, or ended when it should not have."""


def parse_server(text):
    """Returns (kind, path or None) of KIND=PATH; None if there is no such program."""
    kind, separator, path = text.partition("=")
    if kind not in KINDS or not separator or not path:
        raise ValueError(f"--server wants KIND=PATH with KIND one of {', '.join(KINDS)}: {text!r}")
    return kind, shutil.which(path)


def _free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def _listens(pid, port):
    """Whether it is that process that listens on the port, and not one that took it from us."""
    wanted = f":{port:04X}"
    inodes = set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                inodes.add(f"socket:[{fields[9]}]")
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            if os.readlink(f"{folder}/{descriptor}") in inodes:
                return True
        except OSError:
            pass
    return False


class ServerProcess:
    """One running server. Use it as a context manager, or call stop()."""

    def __init__(self, kind, path, durable=False):
        self.kind = kind
        self.path = path
        self.durable = durable
        self.folder = tempfile.mkdtemp(prefix="carillon-conformance-")
        self.log_path = os.path.join(self.folder, "log")
        self.data_path = os.path.join(self.folder, "data")
        os.mkdir(self.data_path)
        self.process = None
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _command(self):
        if self.kind == "beanstalkd":
            command = [self.path, "-l", HOST, "-p", str(self.port)]
            return command + (["-b", self.data_path] if self.durable else [])
        store = ["--data", self.data_path] if self.durable else ["--memory"]
        return [self.path, "serve", *store, "--listen", f"{HOST}:{self.port}",
                "--http-listen", "none"]

    def start(self):
        """Starts the server and returns once it accepts connections."""
        # Another process may take the port between our look and the server's bind: try again.
        for _ in range(5):
            self.port = _free_port()
            with open(self.log_path, "ab") as log:
                self.process = subprocess.Popen(
                    self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if self._wait_until_listening():
                return
        raise ServerError(
            f"{self.path} ended with {self.process.poll()} at its start\n{self.log()}")

    def _wait_until_listening(self):
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                return False
            if _listens(self.process.pid, self.port):
                try:
                    socket.create_connection((HOST, self.port), timeout=1).close()
                    return self.process.poll() is None
                except OSError:
                    pass
            time.sleep(0.005)
        raise ServerError(f"{self.path} did not listen within {START_LIMIT_S:g} s\n{self.log()}")

    def log(self):
        """The last lines the server wrote."""
        with open(self.log_path, "rb") as log:
            return "\n".join(log.read().decode(errors="replace").splitlines()[-20:])

    def alive(self):
        return self.process.poll() is None

    def send_signal(self, name):
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def wait(self, limit_s):
        """Returns the exit code (negative: the signal), or None if it still runs after limit_s."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None

    def kill_and_restart(self):
        """Ends the server with SIGKILL and starts it again on the same folder, on another port."""
        self.process.kill()
        self.process.wait()
        self.start()

    def stop(self):
        if self.process is not None and self.alive():
            self.process.terminate()
            if self.wait(STOP_LIMIT_S) is None:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
