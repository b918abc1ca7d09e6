#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A port scan's worth of garbage on both ports: the server stays, its memory is bounded, and others
are served meanwhile.

First each kind of garbage with the answer that it must have; then attackers, at random and at the
same time, for --seconds. All the while an honest client of each protocol puts, reserves and
deletes.
"""

import http.client
import json
import random
import re
import socket
import ssl
import sys
import threading
import time

from beanstalk import PATIENCE, Gone, Pulse, Server, argument_parser, now, parse, put_command, \
    run_test
from webhook_kill_loop import Api

MIB = 1 << 20
SOON = 10.0       # Seconds; what takes longer is a client that waits for another one's fault.
MAX_GROWTH = 48 * MIB  # max-bodies, and what an allocator keeps.
GONE = (OSError, http.client.HTTPException, Gone)
LIMITS = ["--http-header-timeout", "2s", "--http-body-timeout", "2s", "--http-idle-timeout", "3s",
          "--http-write-timeout", "2s", "--http-max-bodies", "32MiB", "--http-max-body", "1MiB",
          "--memtable-size", "4MiB", "--block-cache-size", "4MiB"]

# What scanners send first, to learn who listens.
PROBES = [
    b"\r\n\r\n", b"\n", b"\0", b"\0" * 64, b"HELP\r\n", b"GET / HTTP/1.0\r\n\r\n",
    b"OPTIONS / HTTP/1.0\r\n\r\n", b"OPTIONS / RTSP/1.0\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n",
    b"OPTIONS sip:nm SIP/2.0\r\nVia: SIP/2.0/TCP nm;branch=foo\r\n\r\n", b"EHLO scanner\r\n",
    b"\x03\x00\x00\x0b\x06\xe0\x00\x00\x00\x00\x00", b"*1\r\n$4\r\nPING\r\n", b"version\r\n",
    b"\x00\x00\x00\x2f\xffSMBr\x00\x00\x00\x00\x08\x01\x40", b"JRMI\x00\x02K", b"stats items\r\n",
    b"0\x0c\x02\x01\x01`\x07\x02\x01\x03\x04\x00\x80\x00", b"\x80\x9e\x01\x03\x01\x00u",
    b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"GIOP\x01\x00\x01\x00$\x00\x00\x00", b"\x01default\n",
    b"\x12\x01\x00\x34\x00\x00\x00\x00\x00\x00\x15\x00\x06\x01",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /nice%20ports%2C/Tri%6Eity.txt%2ebak HTTP/1.0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01",
    b"\x05\x04\x00\x01\x02\x80\x05\x01\x00\x03\x0agoogle.com\x00P", b"DmdT\x00\x00\x00\x17",
    b"CONNECT example.com:80 HTTP/1.1\r\nHost: example.com\r\n\r\n", b"random1random2random3\r\n",
]

# Requests whose end two servers would see in two places: one response, and not for what hides.
# (Not among them: a folded line, which RFC 9112 has a server refuse or take for one line.)
HIDDEN = b"GET /api/v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
AMBIGUOUS = {
    "CL and TE": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "TE and CL": b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n",
    "two CL": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n",
    "CL of two": b"Content-Length: 0, %d\r\n\r\n",
    "CL with a sign": b"Content-Length: +%d\r\n\r\n",
    "CL in hex": b"Content-Length: 0x%x\r\n\r\n",
    "CL with rubbish": b"Content-Length: %d abc\r\n\r\n",
    "CL that is empty": b"Content-Length: \r\nX: %d\r\n\r\n",
    "TE of another name": b"Transfer-Encoding: xchunked\r\nX: %d\r\n\r\n0\r\n\r\n",
    "TE twice": b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\nX: %d\r\n\r\n"
                b"0\r\n\r\n",
    "TE not last": b"Transfer-Encoding: chunked, identity\r\nX: %d\r\n\r\n0\r\n\r\n",
    "TE with a tab in its name": b"Transfer-Encoding\t: chunked\r\nContent-Length: %d\r\n\r\n"
                                 b"0\r\n\r\n",
    "space before the colon": b"Content-Length : %d\r\n\r\n",
    "a NUL in a name": b"Content-Len\0gth: %d\r\n\r\n",
    "a NUL in a value": b"X: a\0b\r\nY: %d\r\n\r\n",
    "a lone CR": b"X: a\rContent-Length: %d\r\n\r\n",
}
CHUNKS = {
    "size of 17 digits": b"1" + b"0" * 16 + b"\r\n",
    "size of all ones": b"ffffffffffffffff\r\n",
    "negative size": b"-1\r\n",
    "size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "size too large for the bytes": b"5\r\nhelloworld\r\n0\r\n\r\n",
    "no CRLF behind a chunk": b"5\r\nhello0\r\n\r\n",
    "space before the size": b" 5\r\nhello\r\n0\r\n\r\n",
    "an extension without end": b"5;" + b"x" * 100_000,
    "a trailer without end": b"0\r\n" + b"X: y\r\n" * 20_000,
    "size of zeros without end": b"0" * 100_000,
}
JSONS = {
    "10,000 arrays": b"[" * 10_000,
    "10,000 arrays that end": b"[" * 10_000 + b"]" * 10_000,
    "10,000 objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep in a member": b'{"body":"x","backoff":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
    "a number of 400 digits": b'{"body":"x","delay_ms":' + b"9" * 400 + b"}",
    "1e400": b'{"body":"x","delay_ms":1e400}',
    "-0": b'{"body":"x","delay_ms":-0.0}',
    "invalid UTF-8": b'{"body":"\xff\xfe"}',
    "overlong UTF-8": b'{"body":"\xc0\xaf"}',
    "half a surrogate": b'{"body":"\\ud800"}',
    "a NUL byte": b'{"body":"a\0b"}',
    "a NUL behind": b'{"body":"x"}\0',
    "a member twice": b'{"body":"x","body":"y"}',
    "a BOM and rubbish": b"\xef\xbb\xbf{",
    "a string without end": b'{"body":"' + b"x" * 60_000,
    "a name of 60 kB": b'{"' + b"n" * 60_000 + b'":1}',
    "100,000 members": b"{" + b",".join(b'"m%d":1' % n for n in range(50_000)) + b"}",
    "NaN": b'{"body":"x","delay_ms":NaN}',
    "nothing": b"",
    "white space": b" " * 60_000,
}
BEANSTALK = {
    "a body of 4 GiB": (b"put 0 0 60 4294967295\r\nx", b""),
    "a body beyond 64 bits": (b"put 0 0 60 99999999999999999999\r\n", b"BAD_FORMAT\r\n"),
    "a negative body": (b"put 0 0 60 -1\r\n", b"BAD_FORMAT\r\n"),
    "a NUL in a name": (b"use a\0b\r\n", b"BAD_FORMAT\r\n"),
    "invalid UTF-8": (b"use \xff\xfe\r\n", b"BAD_FORMAT\r\n"),
    "a TLS hello": (None, None),
    "HTTP": (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 23\r\n\r\n"
             b"put 0 0 60 1\r\nx\r\nuse a\r\n", b"UNKNOWN_COMMAND\r\n"),
    "a line of 8 MB": (b"x" * (8 * MIB) + b"\r\n", b"BAD_FORMAT\r\n"),
    "half a line": (b"reserve-with-ti", b""),
}


def hello():
    """The first message of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def exchange(port, data, patience=5.0, end=True):
    """Sends, and returns what comes until the other side closes or is silent; and whether it has
    closed."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except TimeoutError:
            return received, False
        except OSError:
            pass  # Reset, since it was closed before it had read all: that is an answer, too.
    return received, True


def statuses(received):
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", received)]


def post(path, body, kind=b"application/json", length=None):
    length = len(body) if length is None else length
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n" \
        b"Connection: close\r\n\r\n%s" % (path, kind, length, body)


class Honest(threading.Thread):
    """A client that only wants to work; knows how long it had to wait at most."""

    def __init__(self, stop):
        super().__init__(daemon=True)
        self.stop, self.worst, self.rounds, self.error = stop, 0.0, 0, None

    def run(self):
        try:
            with self.connect() as client:
                while not self.stop.is_set():
                    begun = now()
                    self.round(client)
                    self.worst = max(self.worst, now() - begun)
                    self.rounds += 1
                    time.sleep(0.005)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error


class HonestBeanstalk(Honest):
    def __init__(self, server, stop):
        super().__init__(stop)
        self.server = server

    def connect(self):
        return self.server.client()

    def round(self, client):
        client.send(b"use honest\r\nwatch honest\r\nignore default\r\n" + put_command(b"work"))
        for _ in range(3):
            client.reply()
        put = client.reply().id
        reserved = client.ask("reserve-with-timeout 5")
        if reserved.id != put or reserved.body != b"work":
            raise RuntimeError(f"job {put} was put, and {reserved} came")
        if client.ask(f"delete {put}").word != "DELETED":
            raise RuntimeError(f"job {put} cannot be deleted")


class HonestHttp(Honest):
    def __init__(self, port, stop):
        super().__init__(stop)
        self.port = port

    def connect(self):
        self.api = Api(self.port)
        return self.api.connection.sock or socket.socket()

    def round(self, _):
        status, answer = self.api.ask("POST", "/api/v1/tubes/upright/jobs", {"body": "work"})
        if status != 201:
            raise RuntimeError(f"put: {status} {answer}")
        status, reserved = self.api.ask("POST", "/api/v1/reserve", {
            "tubes": ["upright"], "wait_ms": 5000})
        [job] = reserved["jobs"]
        if job["id"] != answer["id"]:
            raise RuntimeError(f"job {answer['id']} was put, and {job} came")
        status, answer = self.api.ask("POST", f"/api/v1/jobs/{job['id']}/ack",
                                      {"receipt": job["receipt"]})
        if status != 200:
            raise RuntimeError(f"ack: {status} {answer}")


class Attacker(threading.Thread):
    """Does harm at random until it is stopped."""

    def __init__(self, ports, seed, stop):
        super().__init__(daemon=True)
        self.ports, self.stop = ports, stop
        self.random = random.Random(seed)
        self.attacks = 0
        self.tls = hello()

    def run(self):
        kinds = [self.bytes, self.probe, self.mutation, self.crossed, self.loris, self.endless,
                 self.half_open, self.deaf]
        while not self.stop.is_set():
            try:
                self.random.choice(kinds)(self.random.choice(self.ports))
            except OSError:
                pass  # Refused, reset, too slow: that is the server's right.
            self.attacks += 1

    def throw(self, port, data):
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(data)
            if self.random.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
            if self.random.random() < 0.7:
                connection.settimeout(0.05)
                connection.recv(1 << 16)

    def bytes(self, port):
        self.throw(port, self.random.randbytes(self.random.choice((1, 10, 300, 5000, 200_000))))

    def probe(self, port):
        self.throw(port, self.random.choice(PROBES + [self.tls]))

    def sound(self):
        name = self.random.choice(list(AMBIGUOUS))
        return self.random.choice((
            post(b"/api/v1/tubes/trash/jobs", b'{"body":"x"}'),
            post(b"/api/v1/reserve", b'{"tubes":["trash"]}'),
            post(b"/api/v1/tubes/trash/jobs:batch", b'{"body":"x"}\n' * 50,
                 b"application/x-ndjson"),
            b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\n" +
            AMBIGUOUS[name] % len(HIDDEN) + HIDDEN,
            b"put 0 0 60 5\r\nhello\r\nreserve\r\ndelete 1\r\nstats\r\nlist-tubes\r\n",
            b"watch trash\r\nkick 5\r\npause-tube trash 0\r\npeek-ready\r\nquit\r\n"))

    def mutation(self, port):
        data = bytearray(self.sound())
        for _ in range(self.random.randrange(1, 10)):
            at = self.random.randrange(len(data))
            choice = self.random.randrange(3)
            if choice == 0:
                data[at] = self.random.randrange(256)
            elif choice == 1:
                del data[at:at + self.random.randrange(1, 6)]
            else:
                data[at:at] = data[:self.random.randrange(1, 40)]
            data = data or bytearray(b"x")
        self.throw(port, bytes(data))

    def crossed(self, port):
        self.throw(port, self.sound())

    def loris(self, port):
        """Many at once, a byte now and then."""
        with_head = [b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"put 0 0 60 1000\r\n", b"", b"P"]
        connections = [socket.create_connection(("127.0.0.1", port), 1) for _ in range(20)]
        try:
            head = self.random.choice(with_head)
            for connection in connections:
                connection.sendall(head)
            for _ in range(self.random.randrange(10)):
                for connection in connections:
                    connection.sendall(b"x")
                time.sleep(0.05)
        finally:
            for connection in connections:
                connection.close()

    def endless(self, port):
        head = self.random.choice((b"", b"GET /", b"GET / HTTP/1.1\r\nX: ", b"put 0 0 60 1000000000"
                                   b"\r\n", b"POST /api/v1/reserve HTTP/1.1\r\nHost: x\r\n"
                                   b"Transfer-Encoding: chunked\r\n\r\n",
                                   b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\n"
                                   b"Content-Type: application/json\r\n"
                                   b"Transfer-Encoding: chunked\r\n\r\n5;"))
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(head)
            for _ in range(self.random.randrange(40)):
                connection.sendall(b"x" * (1 << 16))

    def half_open(self, port):
        """Says nothing, and is gone without a goodbye (the socket is left to the collector)."""
        connections = [socket.create_connection(("127.0.0.1", port), 1) for _ in range(20)]
        time.sleep(self.random.uniform(0, 0.5))
        for connection in connections:
            if self.random.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

    def deaf(self, port):
        """Asks a lot and reads nothing."""
        with socket.create_connection(("127.0.0.1", port), timeout=0.3) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(40):
                connection.sendall(b"stats\r\n" * 500 if self.random.random() < 0.5 else
                                   b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)


class Garbage:
    def __init__(self, args, folder, checks):
        self.args, self.check = args, checks.that
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.http = probe.getsockname()[1]
        self.server = Server(args.server, folder / "store", LIMITS + args.server_args.split() + [
            "--http-listen", f"127.0.0.1:{self.http}"])
        self.pulse = Pulse()

    def run(self):
        self.server.start()
        stop = threading.Event()
        honest = [HonestBeanstalk(self.server, stop), HonestHttp(self.http, stop)]
        for client in honest:
            client.start()
        time.sleep(0.5)
        before, memory = self.server.descriptors(), self.server.memory()
        self.answers()
        self.attack()
        stop.set()
        for client in honest:
            client.join(PATIENCE)
            patience = SOON + 2 * self.pulse.longest
            self.check(client.error is None and client.rounds > 50 and client.worst < patience,
                       f"{type(client).__name__} worked {client.rounds} times meanwhile and waited "
                       f"{client.worst * 1000:.0f} ms at most ({client.error})")
        grown = self.server.memory("VmHWM") - memory
        self.check(grown < MAX_GROWTH, f"the server grew by {grown // MIB} MiB at most")
        until = now() + SOON
        while self.server.descriptors() > before + 8 and now() < until:
            time.sleep(0.05)
        self.check(self.server.descriptors() <= before + 8, f"{self.server.descriptors()} "
                   f"descriptors afterwards, {before} before")
        status = self.server.terminate()
        self.check(status == 0, f"exit status {status} after SIGTERM")
        log = self.server.log.stat().st_size
        self.check(log < MIB, f"and {log // 1024} KiB of log")

    # -- each with its answer

    def answers(self):
        self.ambiguous()
        self.bodies()
        self.beanstalk()
        bad = [received for received, _ in (exchange(self.http, probe, end=True)
                                            for probe in PROBES + [hello()])
               if not set(statuses(received)) <= {200, 400, 404, 405, 421, 505}]
        self.check(not bad, f"{len(PROBES)} probes of scanners are answered or closed {bad[:2]}")

    def ambiguous(self):
        wrong = []
        for name, fields in AMBIGUOUS.items():
            received, closed = exchange(self.http, b"POST /api/v1/reserve HTTP/1.1\r\nHost: "
                                        b"localhost\r\nContent-Type: application/json\r\n" +
                                        fields % len(HIDDEN) + HIDDEN)
            if statuses(received) not in ([400], [501]) or not closed:
                wrong.append((name, statuses(received), closed))
        for name, chunks in CHUNKS.items():
            received, closed = exchange(self.http, b"POST /api/v1/reserve HTTP/1.1\r\nHost: "
                                        b"localhost\r\nContent-Type: application/json\r\n"
                                        b"Transfer-Encoding: chunked\r\n\r\n" + chunks + HIDDEN)
            if not (statuses(received) in ([400], [413], [431]) or received == b"") or not closed:
                wrong.append((name, statuses(received), closed))
        self.check(not wrong, f"{len(AMBIGUOUS) + len(CHUNKS)} ambiguous framings are refused, and "
                   f"the connection closed {wrong}")

    def bodies(self):
        wrong = []
        for name, body in JSONS.items():
            received, closed = exchange(self.http, post(b"/api/v1/tubes/json/jobs", body), end=False)
            if statuses(received) not in ([400], [413], [422]) and name != "-0" or not closed or \
                    b"application/problem+json" not in received and name != "-0":
                wrong.append((name, received[:200]))
        self.check(not wrong, f"{len(JSONS)} bodies that are hardly JSON have a problem each "
                   f"{wrong}")
        wrong = [(length, statuses(received)) for length, received in (
            (length, exchange(self.http, post(b"/api/v1/tubes/json/jobs", b"x", length=length),
                              end=False)[0])
            for length in (1 << 20 | 1, 10**15, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**40))
            if statuses(received) not in ([400], [413])]
        self.check(not wrong, f"declared bodies that are too large are refused {wrong}")
        head = b"POST /api/v1/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: " \
               b"application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        for what, chunks in (("extension", b"5;" + b"x" * (64 * MIB)),
                             ("trailer", b"0\r\n" + b"X: y\r\n" * (10 * MIB)),
                             ("trailing line", b"0\r\nX: " + b"y" * (64 * MIB))):
            received, closed = exchange(self.http, head + chunks, end=False)
            self.check(closed and statuses(received) in ([431], []),
                       f"a chunk's {what} of 60 MB is refused {statuses(received)}")
        received, closed = exchange(self.http, b"GET /" + b"x" * (8 * MIB))
        self.check(closed and statuses(received) in ([431], []), "a line of 8 MB is refused")
        received, closed = exchange(self.http, b"GET / HTTP/1.1\r\nHost: x\r\n" +
                                    b"X: y\r\n" * 1_000_000)
        self.check(closed and statuses(received) in ([431], []), "a million headers are refused")

    def beanstalk(self):
        wrong = []
        for name, (data, wanted) in BEANSTALK.items():
            received, closed = exchange(self.server.port, hello() if data is None else data)
            if not closed or wanted is not None and received != wanted:
                wrong.append((name, received[:200], closed))
        received, closed = exchange(self.server.port, BEANSTALK["HTTP"][0], end=False)
        if not closed or received != BEANSTALK["HTTP"][1]:
            wrong.append(("HTTP is closed by the server", received[:200]))
        with self.server.client() as client:
            tubes = client.ask("list-tubes").names()
        if "a" in tubes:
            wrong.append(("HTTP is obeyed", tubes))
        self.check(not wrong, f"{len(BEANSTALK)} kinds of garbage on beanstalk's port {wrong}")

    # -- all at once

    def attack(self):
        stop = threading.Event()
        attackers = [Attacker((self.http, self.server.port), f"{self.args.seed}.{number}", stop)
                     for number in range(self.args.attackers)]
        for attacker in attackers:
            attacker.start()
        until = now() + self.args.seconds
        while now() < until and self.server.is_running():
            time.sleep(0.1)
        stop.set()
        for attacker in attackers:
            attacker.join(PATIENCE)
        self.check(self.server.is_running(), f"{sum(a.attacks for a in attackers)} attacks in "
                   f"{self.args.seconds:g} s, and the server runs")
        status, answer = Api(self.http).ask("GET", "/healthz")
        self.check((status, answer) == (200, {"status": "ok"}), f"and is well ({answer})")


def main():
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="of random attacks [8]")
    parser.add_argument("--attackers", type=int, default=6, help="at the same time [6]")
    args = parse(parser)
    print(f"seed {args.seed}", flush=True)
    return run_test("garbage", args, Garbage, *GONE, json.JSONDecodeError)


if __name__ == "__main__":
    sys.exit(main())
