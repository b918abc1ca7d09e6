# SPDX-License-Identifier: Apache-2.0
"""An endpoint for webhooks that does everything endpoints do, and writes down what it was sent."""

import hashlib
import hmac
import random
import socket
import threading
import time

from beanstalk import now

GARBAGE = [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"HTTP/1.1 99\r\n\r\n", b"\x16\x03\x01\x00\x05hello",
           b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"]


class Seen:
    """A request that arrived whole."""

    def __init__(self, fields, body):
        self.at = now()
        self.job = int(fields["carillon-job-id"])
        self.tube = fields["carillon-tube"]
        self.attempt = int(fields["carillon-attempt"])
        self.fields = fields
        self.body = body
        self.taken = False  # A 2xx was sent.


class Endpoint:
    """Listens on a free port of the loopback. `mood` is one of the names of MOODS, or a list to
    choose from for each request."""

    MOODS = ("take", "refuse", "busy", "close", "hang", "garbage", "cut", "slow", "drip")

    def __init__(self, secret=None, seed=0):
        self.mood = "take"
        self.secret = secret
        self.requests = []
        self.unsigned = 0
        self.broken = 0  # Requests that are not what they should be.
        self.connections = 0
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/hook"

    def taken(self):
        """Ids of the jobs that it has taken."""
        with self.lock:
            return {request.job for request in self.requests if request.taken}

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
            connection.settimeout(30)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def close(self):
        self.listener.close()

    def _serve(self, connection):
        try:
            with connection, connection.makefile("rb") as stream:
                while self._serve_one(connection, stream):
                    pass
        except (OSError, ValueError):
            pass  # The server was killed, or had enough of waiting.

    def _read(self, stream):
        line = stream.readline()
        if not line:
            return None
        fields = {}
        while (field := stream.readline().decode("ascii").rstrip("\r\n")):
            name, _, value = field.partition(": ")
            fields[name.lower()] = value
        body = stream.read(int(fields["content-length"]))
        if len(body) < int(fields["content-length"]):
            return None
        if line != b"POST /hook HTTP/1.1\r\n":
            self.broken += 1
        return Seen(fields, body)

    def _is_signed(self, seen):
        stamp, _, signature = seen.fields.get("carillon-signature", "").partition(",v1=")
        signed = f"{stamp[2:]}.{seen.job}.".encode() + seen.body
        right = hmac.new(self.secret.encode(), signed, hashlib.sha256).hexdigest()
        return signature == right and abs(time.time() - int(stamp[2:])) < 60 and \
            stamp[2:] == seen.fields["carillon-timestamp"]

    def _serve_one(self, connection, stream):
        """Returns whether the connection may carry another request."""
        seen = self._read(stream)
        if seen is None:
            return False
        with self.lock:
            self.requests.append(seen)
            mood = self.mood if isinstance(self.mood, str) else self.random.choice(self.mood)
            fraction = self.random.random()
        if self.secret and not self._is_signed(seen):
            self.unsigned += 1
        return getattr(self, "_" + mood)(connection, seen, fraction)

    def _answer(self, connection, head, body=b""):
        head = f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        return True

    def _take(self, connection, seen, _):
        # Before it is sent: if the server is killed with the answer on its way, it counts as taken.
        seen.taken = True
        return self._answer(connection, "204 No Content")

    def _refuse(self, connection, _, fraction):
        return self._answer(connection, ["500 Oops", "404 No", "302 Elsewhere\r\nLocation: /x",
                                         "408 Slow"][int(4 * fraction)], b"an explanation")

    def _busy(self, connection, _, fraction):
        return self._answer(connection,
                            ["429 Slow\r\nRetry-After: 0", "503 Busy"][int(2 * fraction)])

    def _close(self, *_):
        return False

    def _hang(self, _connection, _seen, _fraction):
        time.sleep(2)
        return False

    def _garbage(self, connection, _, fraction):
        connection.sendall(GARBAGE[int(len(GARBAGE) * fraction)])
        return False

    def _cut(self, connection, *_):
        connection.sendall(b"HTTP/1.1 20")
        return False

    def _slow(self, connection, seen, fraction):
        time.sleep(0.3 * fraction)
        return self._take(connection, seen, fraction)

    def _drip(self, connection, seen, _):
        """An answer without an end: its head is one."""
        seen.taken = True
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        time.sleep(1)
        return False
