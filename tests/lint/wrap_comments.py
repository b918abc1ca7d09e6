#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps the comment lines of C++ files that are too long, and touches no others.

Usage: wrap_comments.py FILE...

clang-format would reflow whole comments, and so join the headings of a contract ("Threads:",
"Errors:") into one paragraph. This moves the last words of a line to the next one, keeping the
indentation under a heading or a list item; tables and drawings are left to their author.
"""

import re
import sys

MAX_COLUMNS = 100
COMMENT = re.compile(r'^(\s*//[/!]?)(\s+)(\S.*)$')
# What begins a paragraph of its own, and by how much the lines under it are indented.
BEGINNING = re.compile(r'^(?:[A-Z][a-z]+:\s+|[-*] |\(\d+\) )')
DRAWN = re.compile(r'[|│─┌└►▼▲]')


def continues(line, slashes, indent):
    """The text of `line`, if it goes on with the paragraph that is indented so; else None."""
    comment = COMMENT.match(line)
    if not comment or comment.group(1, 2) != (slashes, indent) or DRAWN.search(line):
        return None
    return None if BEGINNING.match(comment.group(3)) else comment.group(3)


def wrap(text):
    waiting = text.split('\n')
    done = []
    while waiting:
        line = waiting.pop(0)
        comment = COMMENT.match(line)
        if len(line) <= MAX_COLUMNS or not comment or DRAWN.search(line):
            done.append(line)
            continue
        slashes, indent, words = comment.groups()
        beginning = BEGINNING.match(words)
        if beginning:
            indent += ' ' * len(beginning.group(0))
        at = line.rfind(' ', 0, MAX_COLUMNS + 1)
        if at <= len(slashes) + len(indent):
            done.append(line)  # One long word.
            continue
        done.append(line[:at].rstrip())
        rest = slashes + indent + line[at + 1:]
        following = continues(waiting[0], slashes, indent) if waiting else None
        if following is None:
            waiting.insert(0, rest)
        else:
            waiting[0] = rest + ' ' + following
    return '\n'.join(done)


def main():
    for path in sys.argv[1:]:
        with open(path, encoding='utf-8') as f:
            text = f.read()
        wrapped = wrap(text)
        if wrapped != text:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(wrapped)
    return 0


if __name__ == '__main__':
    sys.exit(main())
