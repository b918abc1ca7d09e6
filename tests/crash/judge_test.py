#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the judges can fail: kill_loop.py and order_demo against a server that lies.

For each fault of lying_server.py kill_loop.py must exit 1 and name the right category; without a
fault it must exit 0. The same for order_demo with the faults that its scenario can meet.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

import lying_server

HERE = pathlib.Path(__file__).parent
ROUNDS = ["--rounds", "3", "--seconds", "0.5", "--connections", "2", "--rivals", "2",
          "--max-delay", "1", "--first-only"]
# What order_demo's table, as JSON, must show.
DEMO = {"none": '"ok":true', "lose_put": '"lost":', "lose_delete": '"came_back":',
        "fire_early": '"early":', "two_holders": '"twice_unexplained":'}


def run(fault, command):
    environment = dict(os.environ, LYING_SERVER_FAULT=fault)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240,
                          check=False)
    return done.returncode, done.stdout + done.stderr


def kill_loop(fault):
    """None if the judge said what it should, otherwise what it said."""
    command = [sys.executable, HERE / "kill_loop.py", "--server", HERE / "lying_server.py", *ROUNDS]
    if fault == "bad_exit":
        command += ["--end", "term"]
    if fault == "fire_early":
        command += ["--max-delay", "4"]  # so that some still wait when a slow restart is over
    status, output = run(fault, command)
    if fault == "none":
        return None if status == 0 else output
    failed = output.rpartition("FAILED: ")[2].partition(";")[0].split(", ")
    return None if status == 1 and lying_server.FAULTS[fault] in failed else output


def order_demo(program, fault):
    command = [program, "--server", HERE / "lying_server.py", "--orders", "2000",
               "--min-delay", "1", "--max-delay", "2", "--json"]
    status, output = run(fault, command)
    key = DEMO[fault]
    shown = key in output and (fault == "none" or key + "0," not in output)
    return None if status == (fault != "none") and shown else output


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--order-demo", metavar="PROGRAM", help="try this judge as well")
    parser.add_argument("--jobs", type=int, default=6, help="how many at a time [6]")
    args = parser.parse_args()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        tries = {f"kill_loop.py, {fault}": pool.submit(kill_loop, fault)
                 for fault in ["none", *lying_server.FAULTS]}
        if args.order_demo:
            tries |= {f"order_demo, {fault}": pool.submit(order_demo, args.order_demo, fault)
                      for fault in DEMO}
        failed = 0
        for name, result in tries.items():
            output = result.result()
            failed += output is not None
            print(f"  {'ok    ' if output is None else 'FAILED'}  {name}", flush=True)
            if output is not None:
                print(output)
    print(f"{failed} judges did not see what they should" if failed else "ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
