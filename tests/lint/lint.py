#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what neither the compiler nor clang-tidy knows about this repository.

Usage: lint.py [--root DIR]. Prints one line for each finding, path:line: rule: what, and exits with
1 if there is any. A line that has a reason to break a rule says so: `lint-allow(rule): reason`, on
it or on the line above. The rules and why they are: docs/internals/HACKING.md. lint_test.py shows
that each of them catches what it is for.
"""

import argparse
import os
import re
import sys

# A folder and its layer. A file includes its own folder, the folders above it in the same layer,
# and lower layers; never a sibling. The first prefix that matches counts, so the deepest is first.
LAYERS = [
    ('carillon/base', 0),
    ('carillon/wheel', 1),
    ('carillon/timer', 2),
    ('carillon/blocks', 3),
    ('carillon/calendar', 4),
    ('carillon/broker', 4),
    ('carillon/store/memory', 5),
    ('carillon/store/rocksdb', 5),
    ('carillon/store/redis', 5),
    ('carillon/store/postgres', 5),
    ('carillon/store', 5),
    ('carillon/protocol/beanstalk', 5),
    ('carillon/protocol/http', 5),
    ('carillon/protocol', 5),
    ('carillon/server', 6),
    ('apps', 7),
    ('examples', 7),
    ('bench', 7),
    ('tests', 8),
]
OWN_FOLDERS = {folder.split('/')[0] for folder, _ in LAYERS} | {'.', '..'}
LIBRARY_LAYERS = range(0, 4)  # carillon::carillon: nothing but the standard library.

# System headers that the files of a folder must not see (a name, or a folder/), and why.
SOCKETS = ('asio.hpp', 'boost/asio.hpp', 'asio/', 'boost/asio/', 'boost/beast/', 'sys/socket.h',
           'netinet/', 'arpa/', 'netdb.h', 'poll.h', 'sys/epoll.h')
DISK = ('fstream', 'filesystem', 'fcntl.h', 'unistd.h', 'sys/stat.h', 'rocksdb/')
THREADS = ('thread', 'mutex', 'shared_mutex', 'condition_variable', 'future', 'pthread.h')
FORBIDDEN_INCLUDES = [
    ('carillon/broker', SOCKETS + DISK + THREADS,
     'the broker is a state machine: no socket, disk or thread'),
    ('carillon/protocol', SOCKETS + DISK + THREADS,
     'a protocol turns bytes into commands: no socket, disk or thread'),
    ('carillon/store', SOCKETS, 'a store has no socket'),
    ('carillon/wheel', SOCKETS + DISK + THREADS + ('ctime', 'sys/time.h'),
     'a wheel is told the time, and used by one thread'),
]

CODE = ('.h', '.cc')
SCRIPTS = ('.py', '.sh', '.cmake', '.rb', '.php', '.js', '.mjs', '.cjs', '.java')
SKIPPED_FOLDERS = {'.git', 'build', 'node_modules', '.cache', '__pycache__'}
BESIDE_CODE = re.compile(r'_(test|bench|fuzz)\.cc$')

MAX_COLUMNS = 100
MAX_LINES = 600
TODO_KINDS = ('soon', 'someday', 'perf', 'port')

# Words of an identifier that the glossary has another word for, or that say nothing. Folder, words.
FORBIDDEN_WORDS = [
    ('', {'manager', 'helper', 'helpers', 'util', 'utils', 'jiffy', 'jiffies'}),
    ('carillon/wheel', {'bucket', 'buckets', 'spoke', 'spokes', 'promote', 'demote'}),
]
FORBIDDEN_TYPE_WORDS = {'Info', 'Data', 'Object', 'Task'}

# Scenarios from public bug reports: each is in this document, with the tests that show it.
SCENARIOS_IN = 'docs/internals/testing.md'
SCENARIOS = (
    'A1 A2 A3 A5 A6 A8 A10 A12 A13 A15 B1 B2 B4 B5 B7 B9 B12 B13 B14 B15 B16 C1 C3 C5 C7 C8 C9 '
    'D1 D2 D4 D5 D6 D7 D8 E1 E2 E3 E5 E7 E8 E10 E11 E12 E14 E15 E17 E18 E19 E20 E21 E22 E24 E25 '
    'E27 E28 E29 E31 E32 E34 E36 F1 F2 F5 F6 F7 F9 F10 F11 F12 F14 F16 F17 F19 F21 F22').split()

ALLOW = re.compile(r'lint-allow\(([a-z-]+)\): \S')


class Linter:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.named, self.installed = set(), set()
        self.files = sorted(self._walk())
        self.texts = {}
        for path in self.files:
            try:
                with open(os.path.join(root, path), encoding='utf-8') as f:
                    self.texts[path] = f.read()
            except UnicodeDecodeError:
                pass  # A corpus, a picture.

    def _walk(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def report(self, path, line, rule, message):
        lines = self.texts[path].splitlines()
        for candidate in lines[max(0, line - 2):line]:
            allowed = ALLOW.search(candidate)
            if allowed and allowed.group(1) == rule:
                return
        self.findings.append((path, line, rule, message))

    def run(self):
        self.named, self.installed = self._read_cmake()
        for path, text in self.texts.items():
            if self._is_code(path):
                self.check_layers(path, text)
                self.check_pragma_once(path, text)
                self.check_words(path, text)
                self.check_named_in_cmake(path)
            if self._is_source(path):
                self.check_spdx(path, text)
                self.check_size(path, text)
                self.check_todo(path, text)
            if path.endswith('.md'):
                self.check_links(path, text)
                self.check_quotes(path, text)
        self.check_scenarios()
        self.check_decisions()
        self.check_orphans()
        return self.findings

    @staticmethod
    def _is_code(path):
        return path.endswith(CODE)

    @staticmethod
    def _is_source(path):
        name = os.path.basename(path)
        return path.endswith(CODE + SCRIPTS) or name == 'CMakeLists.txt' or path in ('x', '.ci/run')

    # -- layers ------------------------------------------------------------------------------

    @staticmethod
    def folder_of(path):
        """The entry of LAYERS that a path belongs to, or (None, None)."""
        for folder, layer in LAYERS:
            if path.startswith(folder + '/'):
                return folder, layer
        return None, None

    def check_layers(self, path, text):
        own, own_layer = self.folder_of(path)
        if own is None:
            if path.startswith('carillon/'):
                self.report(path, 1, 'layer', 'a folder without a layer; add it to LAYERS')
            return
        for number, line in enumerate(text.splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if not include:
                continue
            quoted, target = include.group(1) == '"', include.group(2)
            ours = '/' not in target or target.split('/')[0] in OWN_FOLDERS
            if (quoted and ours) or target.startswith('carillon/'):
                self._check_own_include(path, number, own, own_layer, target)
            else:
                self._check_system_include(path, number, own_layer, target)

    def _check_own_include(self, path, number, own, own_layer, target):
        beside = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if own_layer >= 7 and '/' not in target and beside in self.texts:
            return  # A program may name the headers of its own folder as its reader would.
        other, other_layer = self.folder_of(target)
        if other is None or target.startswith('.'):
            self.report(path, number, 'layer', f'"{target}": include it by its path from the root')
        elif other_layer > own_layer:
            self.report(path, number, 'layer', f'{own} (layer {own_layer}) includes upward: '
                        f'{target} (layer {other_layer})')
        elif other_layer == own_layer and own != other and not own.startswith(other + '/'):
            self.report(path, number, 'layer',
                        f'{own} (layer {own_layer}) includes sideways: {target}')

    def _check_system_include(self, path, number, own_layer, target):
        if BESIDE_CODE.search(path):
            return
        # What only tests include is not installed, and may use what tests use.
        shipped = path.endswith('.cc') or path in self.installed
        standard = '/' not in target or target.startswith(('sys/', 'linux/'))
        if own_layer in LIBRARY_LAYERS and shipped and not standard \
                and 'asio' not in os.path.basename(path):
            self.report(path, number, 'layer',
                        f'the library needs only the standard library, not <{target}>')
        for folder, forbidden, why in FORBIDDEN_INCLUDES:
            if path.startswith(folder + '/') and any(
                    target == f or (f.endswith('/') and target.startswith(f)) for f in forbidden):
                self.report(path, number, 'layer', f'<{target}>: {why}')

    # -- one file ----------------------------------------------------------------------------

    def check_spdx(self, path, text):
        if 'SPDX-License-Identifier: Apache-2.0' not in '\n'.join(text.splitlines()[:3]):
            self.report(path, 1, 'spdx', 'no "SPDX-License-Identifier: Apache-2.0" at the top')

    def check_pragma_once(self, path, text):
        if path.endswith('.h') and not re.search(r'^#pragma once$', text, re.M):
            self.report(path, 1, 'pragma-once', 'a header without #pragma once')

    def check_size(self, path, text):
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS and 'http' not in line:
                self.report(path, number, 'columns', f'{len(line)}, more than {MAX_COLUMNS}')
        if len(lines) > MAX_LINES and not re.search(r'\bLong because\b', '\n'.join(lines[:20])):
            self.report(path, 1, 'lines', f'{len(lines)} lines; split it, or say in the first 20 '
                        f'"Long because ..." (from {MAX_LINES} on)')

    def check_todo(self, path, text):
        if os.path.basename(path) in ('lint.py', 'lint_test.py'):
            return
        for number, line in enumerate(text.splitlines(), 1):
            for word in re.finditer(r'\b(TODO|FIXME|XXX)\b(\(([a-z]+)\): \S)?', line):
                if word.group(1) != 'TODO' or word.group(3) not in TODO_KINDS:
                    self.report(path, number, 'todo', 'write TODO(kind): sentence; kinds that may '
                                'land: ' + ', '.join(TODO_KINDS))

    # -- names -------------------------------------------------------------------------------

    @staticmethod
    def _without_comments_and_strings(text):
        """The code of `text`, line by line; comments, includes and literals are blanked."""
        pattern = re.compile(
            r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\''
            r'|^\s*#\s*include[^\n]*', re.S | re.M)

        def blank(match):
            found = match.group(0)
            if found.startswith("'") and re.search(r'[0-9a-fA-F]$', text[:match.start()][-1:]):
                return found  # A digit separator: 1'000'000.
            return re.sub(r'[^\n]', ' ', found)

        return pattern.sub(blank, text)

    def check_words(self, path, text):
        code = self._without_comments_and_strings(text)
        for number, line in enumerate(code.splitlines(), 1):
            for declared in re.finditer(r'\b(?:class|struct|enum class)\s+(?:\[\[\w+\]\]\s+)?(\w+)',
                                        line):
                name = declared.group(1)
                last = re.findall(r'[A-Z][a-z0-9]*', name)[-1:]
                if last and last[0] in FORBIDDEN_TYPE_WORDS:
                    self.report(path, number, 'word', f'{name}: "{last[0]}" says nothing; name '
                                'the noun that a user would say')
            for identifier in re.finditer(r'\b[A-Za-z_]\w*', line):
                words = {w.lower() for w in
                         re.findall(r'[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])', identifier.group(0))}
                for folder, forbidden in FORBIDDEN_WORDS:
                    if path.startswith(folder):
                        for word in sorted(words & forbidden):
                            self.report(path, number, 'word', f'{identifier.group(0)}: not '
                                        f'"{word}"; see docs/glossary.md')

    # -- the tree ----------------------------------------------------------------------------

    def _read_cmake(self):
        """The C++ files that CMake files name, by their paths from the root; and which of them are
        in the HEADERS of a layer, and so installed if the layer is one of the library."""
        named, installed = set(), set()
        for listing, text in self.texts.items():
            if os.path.basename(listing) != 'CMakeLists.txt' and not listing.endswith('.cmake'):
                continue
            text = re.sub(r'#.*', '', text)
            named |= self._paths_in(listing, text)
            for headers in re.findall(r'\bHEADERS\b([^)A-Z]*)', text):
                installed |= self._paths_in(listing, headers)
        return named, installed

    @staticmethod
    def _paths_in(listing, text):
        paths = set()
        for name in re.findall(r'[\w.${}/-]+\.(?:h|cc)\b', text):
            folder = os.path.dirname(listing)
            for root in ('${PROJECT_SOURCE_DIR}/', '${CMAKE_CURRENT_SOURCE_DIR}/'):
                if name.startswith(root):
                    folder = '' if 'PROJECT' in root else folder
                    name = name[len(root):]
            paths.add(os.path.normpath(os.path.join(folder, name)))
        return paths

    def check_named_in_cmake(self, path):
        if path in self.named:
            return
        # The library says which headers it has, to have them installed. Others need not, nor do
        # headers that its tests share, if they are included at all.
        for_tests = re.search(r'_(testing|fixture|model)\.h$', path)
        may_be_silent = for_tests or self.folder_of(path)[1] not in LIBRARY_LAYERS
        if path.endswith('.h') and may_be_silent and self._is_included(path):
            return
        self.report(path, 1, 'dead-file', 'named in no CMakeLists.txt: dead?')

    def _is_included(self, path):
        beside = f'#include "{os.path.basename(path)}"'
        return any(f'#include "{path}"' in text or
                   (beside in text and os.path.dirname(name) == os.path.dirname(path))
                   for name, text in self.texts.items() if name != path)

    # -- documents ---------------------------------------------------------------------------

    @staticmethod
    def _anchor(heading):
        """As the forges make it."""
        kept = re.sub(r'[^\w\- ]', '', heading.strip().replace('`', '').lower())
        return kept.replace(' ', '-')

    def check_links(self, path, text):
        fenced = False
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith('```'):
                fenced = not fenced
            if fenced:
                continue
            for link in re.finditer(r'\]\(([^)\s]+)\)', re.sub(r'`[^`]*`', '', line)):
                target, _, anchor = link.group(1).partition('#')
                if re.match(r'[a-z]+:', link.group(1)):
                    continue
                resolved = os.path.normpath(os.path.join(os.path.dirname(path), target)) \
                    if target else path
                if not os.path.exists(os.path.join(self.root, resolved)):
                    self.report(path, number, 'link', f'{target} does not exist')
                elif anchor and resolved.endswith('.md'):
                    headings = re.findall(r'^#+ (.*)$', self.texts.get(resolved, ''), re.M)
                    if anchor not in {self._anchor(h) for h in headings}:
                        self.report(path, number, 'link', f'{resolved} has no heading #{anchor}')

    def check_scenarios(self):
        """Each scenario is a row of its table, and each test that a row names exists."""
        text = self.texts.get(SCENARIOS_IN)
        if text is None:
            return
        tests, named_in_cmake = self._tests()
        missing = set(SCENARIOS)
        for number, line in enumerate(text.splitlines(), 1):
            if not re.match(r'\| [A-F]\d', line):
                continue
            cells = [cell.strip() for cell in line.strip().strip('|').split(' | ')]
            missing -= set(re.findall(r'\b[A-F]\d+\b', cells[0]))
            for name in re.findall(r'`([\w*.]+)`', cells[-1]):
                pattern = re.escape(name).replace(r'\*', '.*')
                known = tests if '.' in name else named_in_cmake
                if not any(re.fullmatch(pattern, test) for test in known):
                    self.report(SCENARIOS_IN, number, 'scenario', f'no test is named {name}')
        for scenario in sorted(missing, key=SCENARIOS.index):
            self.report(SCENARIOS_IN, 1, 'scenario', f'{scenario} is in no table')

    def _tests(self):
        """What GoogleTest, CTest and unittest know: Suite.Name; words of the CMake files."""
        tests, words = set(), set()
        for path, text in self.texts.items():
            if path.endswith('.cc'):
                tests |= {'.'.join(found) for found in re.findall(
                    r'^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)', text, re.M)}
            elif os.path.basename(path) == 'CMakeLists.txt':
                words |= set(re.findall(r'\w+', text))
            elif path.endswith('_test.py'):
                words |= set(re.findall(r'def (test_\w+)', text))
        return tests, words

    def check_decisions(self):
        """docs/decisions/README.md lists each decision, and no number is given twice."""
        index, seen = 'docs/decisions/README.md', {}
        for path in self.texts:
            numbered = re.match(r'docs/decisions/((\d{4})-.*\.md)$', path)
            if not numbered:
                continue
            if f'({numbered.group(1)})' not in self.texts.get(index, ''):
                self.report(path, 1, 'decision', f'not listed in {index}')
            if numbered.group(2) in seen:
                self.report(path, 1, 'decision', f'has the number of {seen[numbered.group(2)]}')
            seen[numbered.group(2)] = path

    def check_orphans(self):
        linked = {os.path.normpath(os.path.join(os.path.dirname(path), link))
                  for path, text in self.texts.items() if path.endswith('.md')
                  for link in re.findall(r'\]\(([^)\s#]+)', text)}
        for path in self.texts:
            if path.startswith('docs/') and path.endswith('.md') and path not in linked \
                    and path != 'docs/README.md':
                self.report(path, 1, 'orphan', 'no document links to it; begin at docs/README.md')

    def check_quotes(self, path, text):
        """A fenced block under `<!-- quote: FILE -->` is lines of FILE, indentation aside."""
        for quote in re.finditer(r'<!-- quote: (\S+) -->\s*\n```\w*\n(.*?)\n```', text, re.S):
            number = text.count('\n', 0, quote.start()) + 1
            source, block = quote.group(1), quote.group(2)
            if source not in self.texts:
                self.report(path, number, 'quote', f'{source} does not exist')
                continue

            def flat(lines):
                return '\n'.join(line.strip() for line in lines.splitlines() if line.strip())

            if flat(block) not in flat(self.texts[source]):
                self.report(path, number, 'quote', f'is not in {source} as it stands here')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--root', default=os.path.join(os.path.dirname(__file__), '..', '..'))
    options = parser.parse_args()
    findings = Linter(os.path.abspath(options.root)).run()
    for path, line, rule, message in findings:
        print(f'{path}:{line}: {rule}: {message}')
    print(f'lint: {len(findings)} findings')
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main())
