# SPDX-License-Identifier: Apache-2.0
"""Holds the conversation that a transcript describes, and says where the server departs from it."""

import difflib
import select
import socket
import struct
import time

from transcript import LinePattern, raw_bytes, substitute

PATIENCE_S = 10.0  # how long an expected answer may take where the transcript gives no limit
SETTLE_S = 0.02  # how long to look for unexpected bytes at the end
CONTEXT = 8  # how many lines of the conversation so far a failure shows


class Mismatch(Exception):
    """The server answered otherwise than the transcript says."""


def _shown(data, limit=200):
    """Bytes as they are written in a transcript."""
    text = data.decode("latin-1").encode("unicode_escape").decode("ascii")
    return text if len(text) <= limit else f"{text[:limit]}... ({len(data)} bytes)"


class Connection:
    """A client socket whose input is gathered whenever any connection of the transcript waits."""

    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.unread = bytearray()
        self.arrivals = []  # (offset in the stream just past the chunk, arrival time)
        self.received = 0
        self.consumed = 0
        self.at_end = False
        self.end_reason = ""

    def gather(self):
        try:
            chunk = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        except OSError as error:
            self.at_end, self.end_reason = True, str(error)
            return
        if not chunk:
            self.at_end, self.end_reason = True, "end of stream"
            return
        self.unread += chunk
        self.received += len(chunk)
        self.arrivals.append((self.received, time.monotonic()))

    def take(self, size):
        """Removes `size` unread bytes; returns them and the time the last of them arrived."""
        data = bytes(self.unread[:size])
        del self.unread[:size]
        self.consumed += size
        arrived_at = None
        while self.arrivals:
            end, arrived_at = self.arrivals[0]
            if end > self.consumed:
                break
            self.arrivals.pop(0)
            if end == self.consumed:
                break
        return data, arrived_at


class Conversation:
    """Runs one transcript against one server. `server` is None where only an address is known."""

    def __init__(self, transcript, dialect, address, server):
        self.transcript = transcript
        self.dialect = dialect
        self.address = address
        self.server = server
        self.connections = {}
        self.variables = {}
        self.marked_at = time.monotonic()
        self.said = []

    def run(self):
        """Raises Mismatch at the first departure."""
        steps = self.transcript.steps_for(self.dialect)
        index = 0
        try:
            while index < len(steps):
                step = steps[index]
                # Sends that stand together go out in one write.
                group = [step]
                while (step.verb in ("send", "send_raw") and not step.dribble
                       and index + len(group) < len(steps)):
                    following = steps[index + len(group)]
                    if (following.verb not in ("send", "send_raw") or following.dribble
                            or following.connection != step.connection):
                        break
                    group.append(following)
                self._run_group(group)
                index += len(group)
            self._expect_nothing_more()
        finally:
            for connection in self.connections.values():
                connection.socket.close()

    def _run_group(self, group):
        step = group[0]
        try:
            if step.verb in ("send", "send_raw"):
                self._send(step.connection, b"".join(map(self._bytes_to_send, group)), step.dribble)
                self.said += [entry.source[:300] for entry in group]
                return
            getattr(self, "_on_" + step.verb.replace(" ", "_").replace("-", "_"))(step)
            self.said.append(step.source[:300])
        except Mismatch as mismatch:
            context = "".join(f"    {line}\n" for line in self.said[-CONTEXT:])
            raise Mismatch(f"{self.transcript.path}:{step.line}\n{context}{mismatch}") from None
        except (KeyError, ValueError) as error:
            raise Mismatch(f"{self.transcript.path}:{step.line}: {error}") from None

    # Input and output.

    def _connection(self, name):
        if name not in self.connections:
            self.connections[name] = Connection(self.address)
        return self.connections[name]

    def _pump(self, until, enough=lambda: False):
        """Gathers input of all connections until `enough` says so, or until that moment."""
        while not enough():
            left = until - time.monotonic()
            if left <= 0:
                return False
            readable = [c for c in self.connections.values() if not c.at_end]
            if not readable:
                time.sleep(min(left, 0.01))
                continue
            by_socket = {c.socket: c for c in readable}
            for ready in select.select(list(by_socket), [], [], left)[0]:
                by_socket[ready].gather()
        return True

    def _bytes_to_send(self, step):
        if step.verb == "send":
            return substitute(step.text, self.variables).encode("latin-1") + b"\r\n"
        return raw_bytes(step.text, self.variables)

    def _send(self, name, data, dribble):
        connection = self._connection(name)
        view = memoryview(data)
        deadline = time.monotonic() + PATIENCE_S
        while view:
            if time.monotonic() > deadline:
                raise Mismatch(f"  the server did not take {len(view)} of {len(data)} bytes")
            try:
                view = view[connection.socket.send(view[:1] if dribble else view):]
            except BlockingIOError:
                # Both sides may be full: read what the server says before writing on.
                select.select([connection.socket], [connection.socket], [], 0.1)
                connection.gather()
            except OSError as error:
                raise Mismatch(f"  cannot send: {error}") from None
            if dribble:
                self._pump(time.monotonic() + 0.001)

    def _take_line(self, name, limit_s=PATIENCE_S):
        connection = self._connection(name)
        self._pump(time.monotonic() + limit_s,
                   lambda: b"\r\n" in connection.unread or connection.at_end)
        end = connection.unread.find(b"\r\n")
        if end < 0:
            return None, None
        data, arrived_at = connection.take(end + 2)
        return data[:-2], arrived_at

    def _take_exactly(self, name, size):
        connection = self._connection(name)
        self._pump(time.monotonic() + PATIENCE_S,
                   lambda: len(connection.unread) >= size or connection.at_end)
        return connection.take(min(size, len(connection.unread)))

    def _absence(self, name, limit_s=PATIENCE_S):
        connection = self._connection(name)
        rest = f' after "{_shown(bytes(connection.unread))}"' if connection.unread else ""
        if connection.at_end:
            return f"{connection.end_reason}{rest}"
        return f"no line within {limit_s:g} s{rest}"

    # Steps.

    def _on_expect(self, step):
        limit_s = PATIENCE_S
        if step.latest_s is not None:
            limit_s = max(0.0, self.marked_at + step.latest_s - time.monotonic()) + PATIENCE_S
        for _ in range(step.count):
            pattern = LinePattern(step.text, self.variables)
            line, arrived_at = self._take_line(step.connection, limit_s)
            if line is None:
                raise Mismatch(f"  - {step.text}\n  + ({self._absence(step.connection, limit_s)})")
            captured = pattern.match(line.decode("latin-1"))
            if captured is None:
                raise Mismatch(f"  - {step.text}\n  + {_shown(line)}")
            self.variables.update(captured)
            self._check_time(step, arrived_at)

    def _check_time(self, step, arrived_at):
        after_s = arrived_at - self.marked_at
        if step.earliest_s is not None and after_s < step.earliest_s:
            raise Mismatch(f"  early: {step.text} came {after_s:.3f} s after the mark, "
                           f"not before {step.earliest_s:g} s was due")
        if step.latest_s is not None and after_s > step.latest_s:
            raise Mismatch(f"  late: {step.text} came {after_s:.3f} s after the mark, "
                           f"{step.latest_s:g} s was the limit")

    def _on_expect_raw(self, step):
        expected = raw_bytes(step.text, self.variables)
        data, arrived_at = self._take_exactly(step.connection, len(expected))
        if data != expected:
            same = next((i for i, (a, b) in enumerate(zip(expected, data)) if a != b),
                        min(len(expected), len(data)))
            raise Mismatch(f"  differs at byte {same} of {len(expected)}\n"
                           f"  - {_shown(expected[same:])}\n  + {_shown(data[same:])}")
        self._check_time(step, arrived_at)

    def _take_yaml(self, name):
        """Returns the first line and the lines of the body, [] if it is not an OK."""
        line, _ = self._take_line(name)
        if line is None:
            raise Mismatch(f"  - OK <bytes>\n  + ({self._absence(name)})")
        if not line.startswith(b"OK "):
            return line.decode("latin-1"), []
        size = int(line[3:])
        body, _ = self._take_exactly(name, size + 2)
        if len(body) != size + 2 or not body.endswith(b"\r\n") or not body[:-2].endswith(b"\n"):
            raise Mismatch(f"  {line.decode()} is not followed by {size} bytes that end in LF, "
                           f"and CRLF\n  + {_shown(body[-60:])}")
        return line.decode("latin-1"), body[:-3].decode("latin-1").split("\n")

    def _on_yaml(self, step):
        first, lines = self._take_yaml(step.connection)
        if not lines:
            raise Mismatch(f"  - OK <bytes>\n  + {_shown(first.encode('latin-1'))}")
        captured = self._match_block([text for _, text in step.block], lines)
        if captured is None:
            expected = [self._filled(text) for _, text in step.block]
            # A line that matches its pattern is shown as the same line, so that the diff is short.
            for index, text in enumerate(expected):
                for line in lines:
                    if text != "..." and LinePattern(text, self.variables).match(line) is not None:
                        expected[index] = line
                        break
            diff = difflib.unified_diff(expected, lines, "expected", "received", lineterm="", n=2)
            raise Mismatch("".join(f"  {line}\n" for line in diff).rstrip())
        self.variables.update(captured)

    def _filled(self, text):
        try:
            return substitute(text, self.variables)
        except KeyError:
            return text

    def _match_block(self, expected, lines):
        """All lines in order; an expected line `...` stands for any number of lines."""
        captured = {}
        position = 0
        skipping = False
        for text in expected:
            if text == "...":
                skipping = True
                continue
            pattern = LinePattern(text, self.variables)
            while position < len(lines):
                found = pattern.match(lines[position])
                position += 1
                if found is not None or not skipping:
                    break
            else:
                return None
            if found is None:
                return None
            captured.update(found)
            skipping = False
        return captured if skipping or position == len(lines) else None

    def _on_repeats(self, step):
        command, _, wanted = step.text.partition(" until ")
        deadline = time.monotonic() + PATIENCE_S
        pattern = LinePattern(wanted, self.variables)
        while True:
            self._send(step.connection, substitute(command, self.variables).encode() + b"\r\n",
                       False)
            first, lines = self._take_yaml(step.connection)
            if any(pattern.match(line) is not None for line in [first, *lines]):
                return
            if time.monotonic() > deadline:
                raise Mismatch(f"  {command!r} never answered {wanted!r}, last {[first, *lines]}")
            self._pump(time.monotonic() + 0.01)

    def _on_opens(self, step):
        if step.connection in self.connections:
            self.connections[step.connection].socket.close()
        self.connections[step.connection] = Connection(self.address)

    def _on_closes(self, step):
        self.connections.pop(step.connection).socket.close()

    def _on_resets(self, step):
        connection = self.connections.pop(step.connection)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.socket.close()

    def _on_half_closes(self, step):
        self._connection(step.connection).socket.shutdown(socket.SHUT_WR)

    def _on_is_closed(self, step):
        connection = self._connection(step.connection)
        self._pump(time.monotonic() + PATIENCE_S, lambda: connection.at_end or connection.unread)
        if connection.unread:
            raise Mismatch(f"  - (closed)\n  + {_shown(bytes(connection.unread))}")
        if not connection.at_end:
            raise Mismatch(f"  - (closed)\n  + (still open after {PATIENCE_S:g} s)")

    def _on_is_silent(self, step):
        connection = self._connection(step.connection)
        self._pump(time.monotonic() + float(step.text),
                   lambda: connection.at_end or connection.unread)
        if connection.unread or connection.at_end:
            raise Mismatch(f"  - (silence for {step.text} s)\n"
                           f"  + {_shown(bytes(connection.unread)) or connection.end_reason}")

    def _on_mark(self, _step):
        self.marked_at = time.monotonic()

    def _on_wait(self, step):
        self._pump(time.monotonic() + float(step.text))

    def _on_server_gets(self, step):
        self.server.send_signal(step.text)

    def _on_server_exits(self, step):
        code = self.server.wait(PATIENCE_S)
        if code != int(step.text):
            raise Mismatch(f"  - exit code {step.text}\n  + {'none' if code is None else code}")

    def _on_server_is_killed_and_restarted(self, _step):
        for connection in self.connections.values():
            connection.socket.close()
        self.connections.clear()
        self.server.kill_and_restart()
        self.address = (self.address[0], self.server.port)

    def _expect_nothing_more(self):
        self._pump(time.monotonic() + SETTLE_S)
        for name, connection in self.connections.items():
            if connection.unread:
                raise Mismatch(f"{self.transcript.path}:{self.transcript.line}\n"
                               f"  at the end {name} has unexpected bytes: "
                               f"{_shown(bytes(connection.unread))}")
