#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the transcripts of this folder against a server and says which of them it departs from.

    run.py --server carillon=build/gcc-release/bin/carillon
    run.py --server beanstalkd=/usr/bin/beanstalkd pause.txt 'pause/*wakes*'
    run.py --connect 127.0.0.1:11300 --dialect carillon

Exit code: 0 all agree, 1 some do not, 2 wrong usage, 77 no such server program.
"""

import argparse
import concurrent.futures
import fnmatch
import os
import pathlib
import sys
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(FOLDER.parent))

from conversation import Conversation, Mismatch  # noqa: E402
from server_process import (EXIT_SKIPPED, HOST, ServerError, ServerProcess,  # noqa: E402
                            parse_server)
from transcript import DIALECTS, TranscriptError, parse  # noqa: E402

JOBS = 8  # transcripts at a time: they mostly wait


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--server", metavar="KIND=PATH",
                        help="start this server; KIND is carillon or beanstalkd")
    target.add_argument("--connect", metavar="HOST:PORT",
                        help="use a running server; only transcripts that can share one are run")
    target.add_argument("--list", action="store_true", help="print the names of all transcripts")
    parser.add_argument("--dialect", choices=DIALECTS, default="carillon",
                        help="with --connect: what to expect where they differ (default carillon)")
    parser.add_argument("--jobs", type=int, default=JOBS,
                        help=f"transcripts at a time (default {JOBS})")
    parser.add_argument("--verbose", action="store_true", help="say also which transcripts agree")
    parser.add_argument("patterns", nargs="*", metavar="FILE|FILE/NAME",
                        help="only these; shell patterns (default all)")
    return parser.parse_args()


def _label(transcript):
    return f"{pathlib.Path(transcript.path).stem}/{transcript.name}"


def _load(patterns):
    transcripts = []
    for path in sorted(FOLDER.glob("*.txt")):
        transcripts += parse(os.path.relpath(path), path.read_text(encoding="utf-8"))
    labels = [_label(transcript) for transcript in transcripts]
    for label in labels:
        if labels.count(label) > 1:
            raise TranscriptError(f"two transcripts are named {label}")
    if not patterns:
        return transcripts
    wanted = [pattern.removesuffix(".txt") for pattern in patterns]
    return [t for t in transcripts
            if any(fnmatch.fnmatchcase(_label(t), w) or fnmatch.fnmatchcase(_label(t), f"{w}/*")
                   for w in wanted)]


def _run_on_own(transcript, kind, path):
    """Returns the failure, or None."""
    with ServerProcess(kind, path, durable=transcript.server == "durable") as server:
        ends_itself = any(step.verb == "server exits" for step in transcript.steps)
        try:
            Conversation(transcript, kind, (HOST, server.port), server).run()
        except Mismatch as mismatch:
            ended = "" if server.alive() else f"\n  the server ended with {server.process.poll()}"
            log = server.log()
            return f"{mismatch}{ended}" + (f"\n  its log:\n{log}" if log else "")
        if not server.alive() and not ends_itself:
            return f"  the server ended with {server.process.poll()}\n{server.log()}"
    return None


def _run_on_shared(transcript, dialect, address):
    try:
        Conversation(transcript, dialect, address, None).run()
    except (Mismatch, OSError) as mismatch:
        return str(mismatch)
    return None


def _run_all(transcripts, kind, path, address, shared, jobs):
    """Yields (transcript, failure or None, seconds)."""
    def run(transcript):
        started_at = time.monotonic()
        try:
            if transcript.server == "shared":
                failure = _run_on_shared(transcript, kind, address)
            else:
                failure = _run_on_own(transcript, kind, path)
        except (ServerError, OSError) as error:
            failure = str(error)
        return transcript, failure, time.monotonic() - started_at

    # The long ones first, so that none is left alone at the end.
    def waits(transcript):
        return -sum(float(step.text) for step in transcript.steps
                    if step.verb in ("wait", "is silent"))

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run, sorted(transcripts, key=waits))
    if shared is not None and not shared.alive():
        yield None, f"the shared server ended with {shared.process.poll()}\n{shared.log()}", 0.0


def main():
    arguments = _arguments()
    try:
        transcripts = _load(arguments.patterns)
        if arguments.server:
            kind, path = parse_server(arguments.server)
        else:
            kind, path = arguments.dialect, None
        if arguments.connect:
            host, _, port = arguments.connect.rpartition(":")
            address = (host, int(port))
    except (TranscriptError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if not transcripts:
        print("no transcript matches", file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(map(_label, transcripts)))
        return 0
    if arguments.server and path is None:
        print(f"skipped: there is no program {arguments.server.partition('=')[2]}")
        return EXIT_SKIPPED

    started_at = time.monotonic()
    shared = None
    left_out = 0
    if arguments.connect:
        left_out = sum(t.server != "shared" for t in transcripts)
        transcripts = [t for t in transcripts if t.server == "shared"]
    failed = 0
    try:
        if arguments.server:
            shared = ServerProcess(kind, path)
            address = (HOST, shared.port)
        for transcript, failure, took_s in _run_all(
                transcripts, kind, path, address, shared, arguments.jobs):
            label = _label(transcript) if transcript else "all"
            if failure is None:
                if arguments.verbose:
                    print(f"ok    {label} ({took_s:.1f} s)")
            else:
                failed += 1
                print(f"FAIL  {label}\n{failure}")
            sys.stdout.flush()
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if shared is not None:
            shared.stop()
    agreed = len(transcripts) - failed
    skipped = f", {left_out} need a server of their own and were left out" if left_out else ""
    print(f"{agreed} of {len(transcripts)} transcripts agree with {kind}{skipped} "
          f"({time.monotonic() - started_at:.1f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
