# SPDX-License-Identifier: Apache-2.0
"""A server for the tests of the command line."""

import os
import re
import signal
import subprocess

import cli

LIMIT_S = cli.LIMIT_S


class Server:
    """A server of its own, with a folder or in memory; stopped at the end. Unless told otherwise
    it has beanstalk's protocol only."""

    def __init__(self, *words, data=None, http="none", environment=None):
        place = ["--data", data] if data else ["--memory"]
        self.process = subprocess.Popen(
            [cli.BINARY, "serve", *place, "--listen", "127.0.0.1:0", "--http-listen", http,
             *words],
            stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
        self.log = []
        line = self.until("listens on")
        found = re.search(r"listens on ([^;]*?)(?:, HTTP on ([^;]*))?;", line)
        # Of each protocol those by TLS come last.
        self.addresses = found[1].split(", ")
        self.https = (found[2] or "").split(", ")
        self.address, self.http = self.addresses[0], self.https[0]

    def until(self, what):
        """The next line of the log with `what` in it."""
        for line in self.process.stderr:
            self.log.append(line)
            if what in line:
                return line
        raise AssertionError(f"the server ended without '{what}':\n{''.join(self.log)}")

    def verb(self, *words, stdin=b"", **environment):
        where = {"CARILLON_SERVER": self.address}
        if self.http:
            where["CARILLON_HTTP"] = self.http
        return cli.run(*words, stdin=stdin, **{**where, **environment})

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        rest = self.process.stderr.read()
        self.log.append(rest)
        self.process.stderr.close()
        status = self.process.wait(LIMIT_S)
        if kind is None:
            assert status == 0, f"the server ended with {status}: {rest}"


class HttpServer(Server):
    """With both protocols."""

    def __init__(self, *words):
        super().__init__(*words, http="127.0.0.1:0")
