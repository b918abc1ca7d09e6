# SPDX-License-Identifier: Apache-2.0
"""The command line, as its tests run it."""

import os
import re
import subprocess

BINARY = None
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT_S = 30
COLUMNS = 80


def run(*words, stdin=b"", **environment):
    """Returns (exit status, standard output, standard error)."""
    done = subprocess.run([BINARY, *words], input=stdin, capture_output=True, timeout=LIMIT_S,
                          env={**os.environ, **environment}, check=False)
    return done.returncode, done.stdout.decode(), unwrapped(done.stderr.decode(errors="replace"))


def unwrapped(message):
    """A message in one line; no line of it may be too wide, unless it is one word."""
    for line in message.splitlines():
        # What a server logs, and why it does not start, is for a log.
        if line.startswith("carillon serve: "):
            continue
        if line.startswith("carillon ") or line.startswith("  "):
            assert len(line) <= COLUMNS or " " not in line.strip().split(": ")[-1], message
    return re.sub(r"\n  (?=\S)", " ", message)
