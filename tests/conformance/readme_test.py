#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The README's transcript happens: its client lines are sent to a real server, and the answers are
the ones printed there, the job two seconds after its put and not before.

Usage: readme_test.py README.md SERVER
"""

import re
import socket
import sys
import time

from server_process import HOST, ServerProcess

COMMAND = re.compile(r"(put|reserve|delete)\b")


def conversation(readme):
    """[(lines to send, lines to expect)] of the block that begins with `$ nc`."""
    block = re.search(r"^ {4}\$ nc .*\n((?: {4}.*\n)+)", readme, re.M)
    assert block, "no block that begins with `$ nc`"
    lines = [line[4:] for line in block.group(1).splitlines()]
    turns = []
    while lines:
        command = lines.pop(0)
        assert COMMAND.match(command), f"not a command: {command}"
        sent = [command]
        if command.startswith("put"):
            sent.append(lines.pop(0))
        expected = []
        while lines and not COMMAND.match(lines[0]):
            expected.append(lines.pop(0))
        turns.append((sent, expected))
    return turns


def main():
    with open(sys.argv[1], encoding="utf-8") as readme:
        turns = conversation(readme.read())
    assert len(turns) >= 3, f"only {len(turns)} commands in the README"
    with ServerProcess("carillon", sys.argv[2], durable=True) as server, \
            socket.create_connection((HOST, server.port), timeout=10) as connection:
        replies = connection.makefile("rb")
        put_at = None
        for sent, expected in turns:
            print("\n".join(sent))
            if sent[0].startswith("put"):
                put_at = time.monotonic()
                delay = int(sent[0].split()[2])
            connection.sendall("".join(line + "\r\n" for line in sent).encode())
            for line in expected:
                reply = replies.readline().decode().rstrip("\r\n")
                print(reply)
                assert reply == line, f"the README says {line!r}"
            if expected[0].startswith("RESERVED"):
                waited = time.monotonic() - put_at
                assert waited >= delay, f"early: after {waited:.3f} s, not {delay}"
                print(f"({waited:.3f} s after the put)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
