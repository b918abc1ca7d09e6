# SPDX-License-Identifier: Apache-2.0
"""The command line in shells and terminals: completions, top; and bench.

    python3 cli_terminal_test.py build/gcc-release/bin/carillon
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import cli
from cli_server import LIMIT_S, Server

ZSH_STUBS = """
compdef() { :; }
_describe() { print -rl -- "${verbs[@]}"; }
_arguments() {
  if [[ $1 == -C ]]; then state=$try_state line=($try_verb); return 1; fi
  print -rl -- "$@"
}
"""


class Completions(unittest.TestCase):
    """The scripts, in their shells. What they offer is compared with --help."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="carillon-completions-")
        self.addCleanup(self.folder.cleanup)

    def script(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"there is no {shell}")
        status, out, err = cli.run("completions", shell)
        self.assertEqual((status, err), (0, ""))
        path = os.path.join(self.folder.name, "script")
        with open(path, "w", encoding="utf-8") as file:
            file.write(out)
        return path

    def shell(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              cwd=self.folder.name, env={**os.environ, "HOME": self.folder.name})
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout.splitlines()

    def verbs(self):
        """name -> its long flags, as --help tells them."""
        _, out, _ = cli.run("--help")
        names = re.findall(r"(?m)^  ([a-z]+)  ", out[out.index("Subcommands:"):])
        self.assertIn("completions", names)
        return {name: set(re.findall(r"(?m)^  (?:-\w,)?(--[a-z-]+)",
                                     cli.run(name, "--help")[1])) for name in names}

    def bash(self, script, *words):
        line = " ".join(shlex.quote(word) for word in words)
        return self.shell("bash", "--norc", "-c", f'source {script}; COMP_WORDS=({line}); '
                          f'COMP_CWORD={len(words) - 1}; _carillon; '
                          'printf "%s\\n" "${COMPREPLY[@]}"')

    def test_bash(self):
        script = self.script("bash")
        verbs = self.verbs()
        self.assertEqual(set(self.bash(script, "carillon", "")), set(verbs))
        for verb, flags in verbs.items():
            offered = set(self.bash(script, "carillon", verb, "--"))
            self.assertLessEqual(flags - {"--help"}, offered, verb)
        self.assertEqual(self.bash(script, "carillon", "-s", "x", "re"),
                         ["reserve", "release", "resume", "restore"])
        self.assertEqual(self.bash(script, "carillon", "peek", "--state", "b"), ["buried"])
        self.assertEqual(self.bash(script, "carillon", "completions", "f"), ["fish"])
        self.assertEqual(self.bash(script, "carillon", "schedule", "n"), ["next"])
        self.assertEqual(self.bash(script, "carillon", "schedule", "r"), ["rm", "run"])
        self.assertEqual(self.bash(script, "carillon", "schedule", "--ov"), ["--overlap"])
        self.assertEqual(self.bash(script, "carillon", "search", "--state", "re"),
                         ["ready", "reserved"])
        self.assertIn("json", self.bash(script, "carillon", "serve", "--log-format", ""))
        os.mkdir(os.path.join(self.folder.name, "jobs"))
        for words in [["check"], ["serve", "--data"], ["restore", "--data"], ["restore"]]:
            self.assertEqual(self.bash(script, "carillon", *words, "jo"), ["jobs"], words)
        self.assertEqual(self.bash(script, "carillon", "serve", "--config", "scr"), ["script"])

    def fish(self, script, line):
        return [found.split("\t")[0] for found in
                self.shell("fish", "--no-config", "-c",
                           f"source {script}; complete -C {shlex.quote(line)}")]

    def test_fish(self):
        script = self.script("fish")
        verbs = self.verbs()
        self.assertEqual(set(self.fish(script, "carillon ")), set(verbs))
        for verb, flags in verbs.items():
            offered = {flag for flag in self.fish(script, f"carillon {verb} --")}
            self.assertLessEqual(flags - {"--help"}, offered, verb)
        self.assertEqual(self.fish(script, "carillon peek --state b"), ["buried"])
        self.assertIn("json", self.fish(script, "carillon serve --log-format "))

    def zsh(self, script, state, verb=""):
        return self.shell("zsh", "-f", "-c",
                          f"{ZSH_STUBS}\nsource {script}\ntry_state={state} try_verb={verb}\n"
                          "_carillon || true")

    def test_zsh(self):
        script = self.script("zsh")
        verbs = self.verbs()
        self.assertEqual({line.split(":")[0] for line in self.zsh(script, "verb")}, set(verbs))
        for verb, flags in verbs.items():
            lines = self.zsh(script, "rest", verb)
            offered = {line[1:line.index("[")] for line in lines if line.startswith("*--")}
            self.assertLessEqual(flags - {"--help"}, offered, verb)
        self.assertIn("*--state[ready, delayed or buried]:STATE:(ready delayed buried)",
                      self.zsh(script, "rest", "peek"))
        # What stands at which place, and what takes all that follows: at most one.
        ack = self.zsh(script, "rest", "ack")
        self.assertLessEqual({"1:ID:", "2:RECEIPT:"}, set(ack))
        schedule = self.zsh(script, "rest", "schedule")
        self.assertIn("1:verb:(next set ls show rm run)", schedule)
        self.assertEqual([line for line in schedule if line.startswith("*:")], ["*:argument:"])

    def test_the_manual_page_names_every_verb(self):
        with open(os.path.join(cli.ROOT, "packaging/carillon.1"), encoding="utf-8") as page:
            text = page.read()
        named = set(re.findall(r'(?m)^\.BR? ([a-z]+)(?: ", " ([a-z]+))?$', text))
        named = {verb for pair in named for verb in pair if verb}
        self.assertLessEqual(set(self.verbs()), named)


@unittest.skipUnless(shutil.which("tmux"), "there is no tmux")
class Top(unittest.TestCase):
    """carillon top in a real terminal."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.server = self.stack.enter_context(Server())
        folder = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="carillon-top-"))
        self.socket = os.path.join(folder, "tmux")
        for tube, delay in [("mail", "0"), ("mail", "1h"), ("report", "0")]:
            self.server.verb("put", "-t", tube, "-d", delay, "x")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "top", "-x", "80", "-y", "24",
                  "env PS1='ready> ' bash --norc")
        self.stack.callback(self.tmux, "kill-server")
        self.shows(lambda text: "ready>" in text)

    def tmux(self, *words):
        return subprocess.run(["tmux", "-S", self.socket, *words], capture_output=True, text=True,
                              timeout=LIMIT_S, check=True).stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "top")

    def keys(self, *keys):
        self.tmux("send-keys", "-t", "top", *keys)

    def shows(self, wanted):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            text = self.screen()
            if wanted(text):
                return text
            time.sleep(0.05)
        raise AssertionError("the terminal shows:\n" + self.screen())

    def start(self, *words):
        self.keys(" ".join([cli.BINARY, "top", "-s", self.server.address, *words]), "Enter")
        return self.shows(lambda text: "q quit" in text)

    def expect_restored(self, status):
        self.keys('echo status $? "$(stty -a | grep -oE -- \'-?(icanon|echo) \' | xargs)"',
                  "Enter")
        text = self.shows(lambda text: "\nstatus" in text)
        self.assertIn(f"\nstatus {status} icanon echo\n", text)
        self.assertIn("carillon", text)  # What was typed before: the first screen is back.
        self.assertEqual(self.tmux("display-message", "-p", "-t", "top",
                                   "#{cursor_flag} #{alternate_on}"), "1 0\n")

    def test_shows_the_server_and_ends_with_q(self):
        text = self.start("-i", "200ms")
        lines = text.splitlines()
        self.assertTrue(lines[0].startswith("carillon "), text)
        self.assertRegex(text, r"(?m)^mail +1 +1 +0 +0 +0 ")
        self.assertEqual(len(lines), 24)
        self.server.verb("put", "-t", "fresh", "x")
        self.shows(lambda text: re.search(r"(?m)^fresh +1 ", text))
        self.keys("s")
        self.shows(lambda text: "s sort (delayed)" in text)
        self.keys("q")
        self.shows(lambda text: "q quit" not in text)
        self.expect_restored(0)

    def test_ctrl_c_ends_it(self):
        self.start()
        self.keys("C-c")
        self.shows(lambda text: "q quit" not in text)
        self.expect_restored(0)

    def test_a_signal_ends_it_and_leaves_the_terminal_as_it_was(self):
        self.start()
        shell = self.tmux("display-message", "-p", "-t", "top", "#{pane_pid}").strip()
        with open(f"/proc/{shell}/task/{shell}/children", encoding="ascii") as children:
            os.kill(int(children.read()), signal.SIGTERM)
        self.shows(lambda text: "q quit" not in text)
        self.expect_restored(143)

    def test_is_drawn_anew_in_another_size(self):
        self.start("-i", "1h")
        for columns, rows in [(120, 40), (60, 10), (20, 5), (80, 24)]:
            self.tmux("resize-window", "-t", "top", "-x", str(columns), "-y", str(rows))
            text = self.shows(lambda text: "q quit" in text.splitlines()[-1]
                              and len(text.splitlines()) == rows)
            self.assertEqual(max(map(len, text.splitlines())) <= columns, True)

    def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it(self):
        self.start()
        self.keys("C-z")
        self.shows(lambda text: "Stopped" in text)
        self.keys("fg", "Enter")
        self.shows(lambda text: "q quit" in text)
        self.keys("q")
        self.shows(lambda text: "q quit" not in text)
        self.expect_restored(0)

    def test_waits_for_a_server_that_is_gone(self):
        self.start("-i", "200ms")
        self.server.process.send_signal(signal.SIGTERM)
        self.shows(lambda text: "NO ANSWER: " in text)
        self.keys("q")
        self.shows(lambda text: "q quit" not in text)
        self.expect_restored(0)

    def test_without_a_terminal_there_is_json(self):
        status, out, err = self.server.verb("top")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("is no terminal; --json", err)
        status, out, err = self.server.verb("top", "--json", "-i", "100ms", "-n", "2")
        self.assertEqual((status, err), (0, ""))
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([line["ready"] for line in lines], [2, 2])
        self.assertEqual(set(lines[0]), {
            "uptime_s", "connections", "waiting", "ready", "delayed", "reserved", "buried",
            "puts_per_s", "reserves_per_s", "deletes_per_s", "timeouts_per_s", "cpu_cores",
            "tubes"})


class Bench(unittest.TestCase):
    def test_says_what_it_measured_and_leaves_nothing(self):
        with Server() as server:
            status, out, err = server.verb("bench", "--jobs", "500", "--delayed", "20", "--json")
            self.assertEqual((status, err), (0, ""))
            line = json.loads(out)
            self.assertEqual(set(line), {
                "jobs", "connections", "depth", "size", "puts_per_s", "works_per_s", "delayed",
                "late_p50_ms", "late_p99_ms", "late_max_ms"})
            self.assertGreater(line["puts_per_s"], 0)
            self.assertGreater(line["late_max_ms"], 0)  # Never early.
            self.assertEqual(json.loads(server.verb("stats", "--json")[1])["current-jobs-ready"], 0)
            self.assertEqual([tube["tube"] for tube in
                              json.loads(server.verb("ls", "--json")[1])["tubes"]], ["default"])
            status, out, _ = server.verb("bench", "--jobs", "10", "--delayed", "0", "-c", "3")
            self.assertEqual(status, 0)
            self.assertRegex(out, r"(?m)^put +\d+ a second$")
            for words in [["--jobs", "x"], ["--size", "65536"], ["--depth", "-1"]]:
                self.assertEqual(server.verb("bench", *words)[0], 2)

    def test_a_server_that_refuses_is_told_of(self):
        with Server("--max-job-size", "10") as server:
            status, out, err = server.verb("bench", "--jobs", "10")
            self.assertEqual((status, out, err), (
                3, "", "carillon bench: JOB_TOO_BIG: the body is larger than the max-job-size of "
                "the server\n"))


if __name__ == "__main__":
    cli.BINARY = os.path.abspath(sys.argv.pop(1))
    unittest.main()
