# SPDX-License-Identifier: Apache-2.0
"""A server process to kill, and a small client of the beanstalkd protocol, for the crash tests.

Python's standard library only. `SERVER` is anything that understands
`SERVER serve --data DIR --listen 127.0.0.1:PORT`: carillon, beanstalkd.sh, lying_server.py.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77  # exit status that ctest shows as skipped
PATIENCE = 60.0  # seconds without a sign of life; the machine may be busy


def now():
    """Seconds on the clock that counts suspended time too, which is what a delay is measured in."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Pulse:
    """How long this machine has kept a thread waiting that wanted to run: what is late by no more
    says nothing about the server."""

    INTERVAL = 0.01

    def __init__(self):
        self.longest = 0.0
        self.lately = 0.0
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self):
        while True:
            before = now()
            time.sleep(self.INTERVAL)
            late = now() - before - self.INTERVAL
            self.longest, self.lately = max(self.longest, late), max(self.lately, late)

    def take(self):
        """The longest since the last time it was asked for."""
        lately, self.lately = self.lately, 0.0
        return lately


class Gone(Exception):
    """The server closed the connection."""


class Unexpected(RuntimeError):
    """An answer that the test cannot go on with."""


class Reply:
    """One answer: `words` of its line, and `body` of RESERVED, FOUND and OK."""

    __slots__ = ("words", "body", "at")

    def __init__(self, words, body, at):
        self.words = words
        self.body = body
        self.at = at

    @property
    def word(self):
        return self.words[0]

    @property
    def id(self):
        """The id in INSERTED, RESERVED, FOUND; any other answer is unexpected."""
        if self.word not in ("INSERTED", "RESERVED", "FOUND"):
            raise Unexpected(f"a job was expected, but the answer was {self}")
        return int(self.words[1])

    def yaml(self):
        """The dictionary of stats, stats-tube and stats-job; values are strings, unquoted."""
        if self.word != "OK":
            raise Unexpected(f"statistics were expected, but the answer was {self}")
        pairs = (line.split(": ", 1) for line in self.body.decode().splitlines()[1:])
        return {pair[0]: pair[1].strip('"') for pair in pairs if len(pair) == 2}

    def names(self):
        """The list of list-tubes."""
        if self.word != "OK":
            raise Unexpected(f"a list was expected, but the answer was {self}")
        return [line[2:].strip('"') for line in self.body.decode().splitlines()[1:]]

    def __repr__(self):
        return " ".join(self.words)


class Client:
    """One connection. `send` does not wait; `reply` waits for the next answer, in order."""

    def __init__(self, port, timeout=PATIENCE):
        try:
            self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        except OSError as error:
            raise Gone(str(error)) from error
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        try:
            self.socket.sendall(data if isinstance(data, bytes) else data.encode())
        except (ConnectionError, BrokenPipeError):
            pass  # answers may still wait to be read; the end is found after them
        except socket.timeout as error:
            raise TimeoutError("the server does not read") from error

    def _fill(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError as error:
            raise Gone(str(error)) from error
        except socket.timeout as error:
            raise TimeoutError("no answer") from error
        if not data:
            raise Gone("end of file")
        self.buffer += data

    def _take(self, size):
        while len(self.buffer) < size:
            self._fill()
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def reply(self):
        searched = 0
        while (end := self.buffer.find(b"\r\n", searched)) < 0:
            searched = max(0, len(self.buffer) - 1)
            self._fill()
        words = self._take(end + 2)[:-2].decode("latin-1").split(" ")
        body = None
        if words[0] in ("RESERVED", "FOUND", "OK"):
            body = self._take(int(words[-1]) + 2)[:-2]
        return Reply(words, body, now())

    def ask(self, command):
        self.send(command + "\r\n")
        return self.reply()

    def ask_all(self, commands, depth=200):
        """Pipelines `commands`, at most `depth` at a time, and returns their answers."""
        replies = []
        for at in range(0, len(commands), depth):
            chunk = commands[at : at + depth]
            self.send("".join(command + "\r\n" for command in chunk))
            replies += [self.reply() for _ in chunk]
        return replies


def put_command(body, pri=0, delay=0, ttr=60):
    return b"put %d %d %d %d\r\n%s\r\n" % (pri, delay, ttr, len(body), body)


class Server:
    """The server as a child process on one folder and one port, started again and again."""

    def __init__(self, program, folder, arguments=(), environment=None):
        self.program = str(pathlib.Path(program).resolve())
        if not os.access(self.program, os.X_OK):
            sys.exit(f"--server {program}: no such program")
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.log = self.folder.parent / (self.folder.name + ".log")
        self.arguments = list(arguments)
        self.environment = dict(os.environ, **(environment or {}))
        self.process = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def pid(self):
        return self.process.pid

    def launch(self):
        """Starts it and does not wait."""
        listen = f"127.0.0.1:{self.port}"
        command = [self.program, "serve", "--data", str(self.data), "--listen", listen]
        command += self.arguments
        # It dies with us, even if we are killed.
        command = ["setpriv", "--pdeathsig", "KILL"] + command
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, env=self.environment,
                                            start_new_session=True)

    def wait_ready(self, patience=PATIENCE):
        """Waits until it answers `stats`. Returns the seconds that took."""
        start = now()
        while now() < start + patience:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended by itself with {self.process.returncode}\n"
                                   + self.log_tail())
            try:
                with Client(self.port) as client:
                    client.ask("stats")
                    return now() - start
            except Gone:
                time.sleep(0.005)
        raise RuntimeError(f"the server did not answer within {patience:.0f} s\n" + self.log_tail())

    def start(self):
        self.launch()
        return self.wait_ready()

    def kill(self):
        """kill -9."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def terminate(self, patience=PATIENCE):
        """SIGTERM; returns the exit status (negative: the signal it died of), None if it stays."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            return None

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def memory(self, field="VmRSS"):
        """Resident bytes; VmHWM: the most there have been."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
        raise RuntimeError(f"no {field}")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def log_tail(self):
        lines = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join("  | " + line for line in lines)

    def client(self, timeout=PATIENCE):
        return Client(self.port, timeout)


class Folder:
    """A temporary folder; deleted at the end unless `keep`."""

    def __init__(self, name, keep=False):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"carillon-{name}-"))
        self.keep = keep

    def __enter__(self):
        return self.path

    def __exit__(self, *_):
        if self.keep:
            print(f"kept {self.path}")
        else:
            shutil.rmtree(self.path, ignore_errors=True)


class Checks:
    """Prints each check as it is made and remembers whether one failed."""

    def __init__(self):
        self.failed = 0

    def that(self, condition, what):
        print(f"  {'ok    ' if condition else 'FAILED'}  {what}", flush=True)
        self.failed += not condition
        return condition

    def status(self):
        print("ok" if not self.failed else f"{self.failed} checks FAILED")
        return 1 if self.failed else 0


def argument_parser(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, metavar="PROGRAM",
                        help="run as PROGRAM serve --data DIR --listen 127.0.0.1:PORT")
    parser.add_argument("--server-args", default="", metavar="ARGS",
                        help="further arguments for it, in one string")
    parser.add_argument("--seed", type=int, help="seed of all that is random [a fresh one]")
    parser.add_argument("--keep", action="store_true", help="keep the folder and the log")
    return parser


def parse(parser):
    """Parses, and turns what must not leave a server behind (SIGTERM) into an exception."""
    args = parser.parse_args()
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return args


def run_test(name, args, make, *also):
    """Runs what `make(args, folder, checks)` made, which has run() and a server, and returns the
    status to exit with. That the server is gone, or what `also` names, is a check that failed."""
    checks = Checks()
    with Folder(name, args.keep) as folder:
        test = make(args, folder, checks)
        try:
            test.run()
        except (Gone, OSError, RuntimeError) + also as error:
            checks.that(False, f"the server is there and answers: {error!r}")
        finally:
            test.server.kill()
            if checks.failed and test.server.log.exists():
                print(test.server.log_tail())
        return checks.status()
