#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a server and lets a foreign client do its round trip against it.

    run.py --server carillon=build/gcc-release/bin/carillon node_beanstalk
    run.py --server beanstalkd=/usr/bin/beanstalkd pheanstalk beaneater

Exit code: 0 all did, 1 some did not, 2 wrong usage, 77 a server or client is not installed.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER.parent))

from server_process import (EXIT_SKIPPED, HOST, ServerError, ServerProcess,  # noqa: E402
                            parse_server)

LIMIT_S = 90  # for one client's round trip; it takes about 5 s


def _needs_node_module(name):
    return (f"node_modules/{name} is not there; run `npm ci` in {FOLDER}"
            if not (FOLDER / "node_modules" / name).is_dir() else None)


def _needs_output(command, package):
    try:
        found = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except OSError:
        found = None
    return None if found is not None and found.returncode == 0 else f"{package} is not installed"


# Each client: its interpreter, its program, and a function that says what is missing.
CLIENTS = {
    "node_beanstalk": ("node", "node_beanstalk.mjs", lambda: _needs_node_module("node-beanstalk")),
    "jackd": ("node", "jackd.mjs", lambda: _needs_node_module("jackd")),
    "pheanstalk": ("php", "pheanstalk.php", lambda: _needs_output(
        ["php", "-r", "require 'Pheanstalk/autoload.php';"], "php-pda-pheanstalk")),
    "beaneater": ("ruby", "beaneater.rb", lambda: _needs_output(
        ["ruby", "-e", "require 'beaneater'"], "ruby-beaneater")),
}


def _round_trip(client, kind, path):
    """Returns an exit code."""
    interpreter, program, missing = CLIENTS[client]
    if not shutil.which(interpreter):
        print(f"skipped {client}: {interpreter} is not installed")
        return EXIT_SKIPPED
    if reason := missing():
        print(f"skipped {client}: {reason}")
        return EXIT_SKIPPED
    with ServerProcess(kind, path) as server:
        try:
            code = subprocess.run([interpreter, str(FOLDER / program), HOST, str(server.port)],
                                  timeout=LIMIT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            print(f"FAIL  {client}: no end within {LIMIT_S} s")
            code = 1
        if not server.alive():
            print(f"FAIL  {client}: the server ended\n{server.log()}")
            code = 1
        elif code:
            print(f"the server's log:\n{server.log()}")
    return 1 if code else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", metavar="KIND=PATH", required=True,
                        help="start this server; KIND is carillon or beanstalkd")
    parser.add_argument("clients", nargs="+", choices=CLIENTS, metavar="CLIENT",
                        help=f"one or more of {', '.join(CLIENTS)}")
    arguments = parser.parse_args()
    try:
        kind, path = parse_server(arguments.server)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if path is None:
        print(f"skipped: there is no program {arguments.server.partition('=')[2]}")
        return EXIT_SKIPPED
    try:
        codes = [_round_trip(client, kind, path) for client in arguments.clients]
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
