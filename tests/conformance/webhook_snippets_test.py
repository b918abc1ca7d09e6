#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/operating/webhooks.md that check a signature: each is run, as it stands
there, on signatures that are right and on such that are not."""

import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PAGE = os.path.join(ROOT, "docs", "operating", "webhooks.md")
EXIT_SKIPPED = 77
SECRET = "at least sixteen bytes"
BODY = '{"order": 7, "name": "Zoë \\u0000"}\r\n'
JOB = "42"

# How each is called: it reads a list of cases from the file named by its last argument, and prints
# true or false for each.
LANGUAGES = {
    "python": (["python3"], ".py", """
import json, sys
for case in json.load(open(sys.argv[1])):
    print("true" if is_genuine(case["secret"].encode(), case["signature"], case["job"],
                               case["body"].encode()) else "false")
"""),
    "php": (["php"], ".php", """
foreach (json_decode(file_get_contents($argv[1]), true) as $case) {
    echo is_genuine($case['secret'], $case['signature'], $case['job'], $case['body'])
        ? "true\\n" : "false\\n";
}
"""),
    "js": (["node"], ".cjs", """
for (const c of JSON.parse(require('node:fs').readFileSync(process.argv[2], 'utf8'))) {
  console.log(isGenuine(c.secret, c.signature, c.job, Buffer.from(c.body)) ? 'true' : 'false');
}
"""),
}


def signature(secret=SECRET, at=None, job=JOB, body=BODY):
    at = int(time.time()) if at is None else at
    signed = f"{at}.{job}.{body}".encode()
    return f"t={at},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def cases():
    """What is asked, and the right answer."""
    good = signature()
    now, hexadecimal = good[2:].split(",v1=")
    both = f"{signature('another secret, the newer one')},v1={hexadecimal}"
    flipped = good[:-1] + ("0" if good[-1] != "0" else "1")
    asked = [
        ("as it should be", {}, True),
        ("two secrets, of which the second is known", {"signature": both}, True),
        ("another secret", {"secret": "some other secret"}, False),
        ("another job", {"job": "43"}, False),
        ("another body", {"body": BODY + " "}, False),
        ("one digit changed", {"signature": flipped}, False),
        ("sent again an hour later", {"signature": signature(at=int(now) - 3600)}, False),
        ("from the future", {"signature": signature(at=int(now) + 3600)}, False),
        ("another time on it", {"signature": f"t={int(now) - 1},v1={hexadecimal}"}, False),
        ("two times", {"signature": f"{good},t={now}"}, False),
        ("no time", {"signature": f"v1={hexadecimal}"}, False),
        ("no signature", {"signature": f"t={now}"}, False),
        ("an empty signature", {"signature": f"t={now},v1="}, False),
        ("nothing", {"signature": ""}, False),
        ("garbage", {"signature": ",,=,=t=,v1,v1=xyz"}, False),
        ("a time that is none", {"signature": f"t=x{now},v1={hexadecimal}"}, False),
    ]
    usual = {"secret": SECRET, "signature": good, "job": JOB, "body": BODY}
    return [(name, {**usual, **changed}, right) for name, changed, right in asked]


def check(language, program):
    command, suffix, caller = LANGUAGES[language]
    if shutil.which(command[0]) is None:
        print(f"{language}: {command[0]} is not installed")
        return None
    wanted = cases()
    with tempfile.TemporaryDirectory(prefix="carillon-snippets-") as folder:
        source, data = os.path.join(folder, "snippet" + suffix), os.path.join(folder, "cases")
        with open(source, "w", encoding="utf-8") as file:
            file.write(("<?php\n" if language == "php" else "") + program + caller)
        with open(data, "w", encoding="utf-8") as file:
            json.dump([case for _, case, _ in wanted], file)
        done = subprocess.run([*command, source, data], capture_output=True, text=True, timeout=60,
                              check=False)
    answers = done.stdout.split()
    if done.returncode != 0 or done.stderr or len(answers) != len(wanted):
        print(f"{language}: ended with {done.returncode}\n{done.stdout}{done.stderr}")
        return False
    wrong = [name for (name, _, right), answer in zip(wanted, answers)
             if answer != ("true" if right else "false")]
    for name in wrong:
        print(f"{language}: wrong: {name}")
    print(f"{language}: {len(wanted) - len(wrong)} of {len(wanted)} right")
    return not wrong


def main():
    with open(PAGE, encoding="utf-8") as page:
        programs = dict(re.findall(r"^```(\w+)\n(.*?)^```$", page.read(), re.M | re.S))
    missing = set(LANGUAGES) - set(programs)
    if missing:
        sys.exit(f"no program in {PAGE} for {', '.join(sorted(missing))}")
    results = [check(language, programs[language]) for language in LANGUAGES]
    if False in results:
        sys.exit(1)
    if None in results:
        sys.exit(EXIT_SKIPPED)


if __name__ == "__main__":
    main()
