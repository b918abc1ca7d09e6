# SPDX-License-Identifier: Apache-2.0
"""Reads transcripts: text to a list of steps. The grammar is in README.md beside this file."""

import ast
import re
from dataclasses import dataclass, field

DIALECTS = ("beanstalkd", "carillon")
SERVERS = ("shared", "own", "durable")


class TranscriptError(Exception):
    """A transcript that cannot be read; the message names file and line."""


@dataclass
class Step:
    """One line of a conversation, or a `yaml` line with the block below it."""
    line: int
    source: str
    verb: str
    connection: str = ""
    text: str = ""
    count: int = 1
    earliest_s: float = None
    latest_s: float = None
    dribble: bool = False
    # For verb `yaml`: the expected lines as (line number, text).
    block: list = field(default_factory=list)
    dialect: str = ""


@dataclass
class Transcript:
    path: str
    line: int
    name: str
    about: str
    server: str
    steps: list

    def steps_for(self, dialect):
        """The steps that hold for that dialect."""
        chosen = []
        for step in self.steps:
            if step.dialect not in ("", dialect):
                continue
            if step.verb == "yaml":
                block = [entry[:2] for entry in step.block if entry[2] in ("", dialect)]
                step = Step(**{**step.__dict__, "block": block})
            chosen.append(step)
        return chosen


_SEND = re.compile(r"([A-Z]\w*)(>>?)(\.?)(?: (.*))?$")
_EXPECT = re.compile(r"([A-Z]\w*)(<<?)(?:\*(\d+))?(?:\[([\d.]*?)\.\.([\d.]*?)\])?(?: (.*))?$")
_YAML = re.compile(r"([A-Z]\w*)<yaml$")
_CONNECTION_VERB = re.compile(
    r"([A-Z]\w*) (opens|closes|half-closes|resets|is closed|is silent|repeats)(?: (.*))?$")
_OTHER = re.compile(
    r"(mark|wait|server gets|server exits|server is killed and restarted)(?: (.*))?$")


def _parse_step(number, source):
    if match := _YAML.match(source):
        return Step(number, source, "yaml", match[1])
    if match := _SEND.match(source):
        verb = "send" if match[2] == ">" else "send_raw"
        return Step(number, source, verb, match[1], match[4] or "", dribble=bool(match[3]))
    if match := _EXPECT.match(source):
        verb = "expect" if match[2] == "<" else "expect_raw"
        return Step(number, source, verb, match[1], match[6] or "", int(match[3] or 1),
                    float(match[4]) if match[4] else None, float(match[5]) if match[5] else None)
    if match := _CONNECTION_VERB.match(source):
        return Step(number, source, match[2], match[1], match[3] or "")
    if match := _OTHER.match(source):
        return Step(number, source, match[1], text=match[2] or "")
    return None


def parse(path, text):
    """Returns the transcripts of one file."""
    transcripts = []
    current = None
    in_header = False
    dialect = ""

    def fail(number, message):
        raise TranscriptError(f"{path}:{number}: {message}")

    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if line.startswith("=== "):
            current = Transcript(path, number, line[4:].strip(), "", "shared", [])
            transcripts.append(current)
            in_header, dialect = True, ""
        elif current is None:
            if stripped and not stripped.startswith("#"):
                fail(number, "text before the first '=== name' line")
        elif in_header and stripped:
            if stripped.startswith("server:"):
                current.server = stripped[len("server:"):].strip()
                if current.server not in SERVERS:
                    fail(number, f"server is one of {', '.join(SERVERS)}, not {current.server!r}")
            else:
                current.about = f"{current.about} {stripped}".strip()
        elif in_header:
            in_header = False
        elif not stripped or stripped.startswith("#"):
            continue
        elif stripped in ("[both]", *(f"[{name}]" for name in DIALECTS)):
            dialect = "" if stripped == "[both]" else stripped[1:-1]
        elif line.startswith("|"):
            if not current.steps or current.steps[-1].verb != "yaml":
                fail(number, "a '|' line must follow a 'X<yaml' line")
            current.steps[-1].block.append((number, line[1:].removeprefix(" "), dialect))
        else:
            step = _parse_step(number, line)
            if step is None:
                fail(number, f"not a step: {line!r}")
            step.dialect = dialect
            current.steps.append(step)
    for transcript in transcripts:
        if not transcript.about:
            fail(transcript.line, f"{transcript.name!r} does not say what it is about")
        if not transcript.steps:
            fail(transcript.line, f"{transcript.name!r} has no steps")
    return transcripts


_PLACEHOLDER = re.compile(r"\{(?:(\d+)\*([^{}]*)|(\w*):(/[^/]*/|[^{}]*)|(\w+))\}")


def substitute(text, variables):
    """Replaces {name} and {N*text} in what is sent."""
    def value(match):
        if match[1]:
            return match[2] * int(match[1])
        if match[5] is None or match[5] not in variables:
            raise KeyError(f"{match[0]} has no value here")
        return variables[match[5]]
    return _PLACEHOLDER.sub(value, text)


def raw_bytes(text, variables):
    """Value of `"bytes" * 3 "more"`: C-like escapes in quotes, repetition, concatenation."""
    result = b""
    position = 0
    item = re.compile(r'\s*("(?:[^"\\]|\\.)*")(?:\s*\*\s*(\d+))?')
    while position < len(text.rstrip()):
        match = item.match(text, position)
        if not match:
            raise ValueError(f"not a quoted string: {text[position:]!r}")
        quoted = substitute(match[1], variables)
        result += ast.literal_eval(quoted).encode("latin-1") * int(match[2] or 1)
        position = match.end()
    return result


class LinePattern:
    """An expected line with placeholders; match() returns what they captured, or None."""

    _NAMED = {"int": r"\d+", "word": r"\S+", "any": r".*"}

    def __init__(self, text, variables):
        self.checks = []  # (group, predicate)
        self.names = {}  # group -> variable
        pattern = ""
        position = 0
        for number, match in enumerate(_PLACEHOLDER.finditer(text)):
            pattern += re.escape(text[position:match.start()])
            position = match.end()
            group = f"g{number}"
            if match[4] is not None:
                pattern += f"(?P<{group}>{self._part(group, match[4], variables)})"
                if match[3]:
                    self.names[group] = match[3]
            else:
                pattern += re.escape(substitute(match[0], variables))
        self._regex = re.compile(pattern + re.escape(text[position:]), re.DOTALL)

    def _part(self, group, kind, variables):
        if kind in self._NAMED:
            return self._NAMED[kind]
        if match := re.fullmatch(r"(\d+)\.\.(\d+)", kind):
            low, high = int(match[1]), int(match[2])
            self.checks.append((group, lambda text: low <= int(text) <= high))
            return r"\d+"
        if match := re.fullmatch(r">(\w+)", kind):
            other = int(variables[match[1]])
            self.checks.append((group, lambda text: int(text) > other))
            return r"\d+"
        if len(kind) > 2 and kind[0] == kind[-1] == "/":
            return kind[1:-1]
        raise ValueError(f"unknown pattern {kind!r}")

    def match(self, line):
        found = self._regex.fullmatch(line)
        if not found or not all(check(found[group]) for group, check in self.checks):
            return None
        return {name: found[group] for group, name in self.names.items()}
