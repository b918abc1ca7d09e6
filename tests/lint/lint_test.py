#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The lint catches what it is for and lets pass what is right, on small trees made for the test."""

import os
import tempfile
import unittest

import lint
import wrap_comments

SPDX = '// SPDX-License-Identifier: Apache-2.0\n'
CMAKE_SPDX = '# SPDX-License-Identifier: Apache-2.0\n'


def findings_in(files):
    """(path, rule) of each finding in a tree of `files`; CMakeLists.txt that name all are added."""
    tree = dict(files)
    for path in files:
        if path.endswith(('.h', '.cc')):
            listing = os.path.join(os.path.dirname(path), 'CMakeLists.txt')
            if listing not in files:
                kind = 'HEADERS' if path.endswith('.h') else 'SOURCES'
                tree[listing] = tree.get(listing, CMAKE_SPDX) + f'{kind} {os.path.basename(path)}\n'
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), 'w', encoding='utf-8') as f:
                f.write(text)
        return [(path, rule) for path, _, rule, _ in lint.Linter(root).run()]


def header(body):
    return SPDX + '#pragma once\n' + body


class Layers(unittest.TestCase):
    def includes(self, path, target):
        """The rules broken by a file at `path` that includes `target`."""
        files = {path: header(f'#include {target}\n')}
        other = target.strip('"<>')
        if target.startswith('"'):
            files.setdefault(other, header(''))
        return [rule for name, rule in findings_in(files) if name == path]

    def test_an_upward_include_is_caught(self):
        for path, target in [
                ('carillon/base/a.h', '"carillon/wheel/w.h"'),
                ('carillon/wheel/a.h', '"carillon/broker/b.h"'),
                ('carillon/broker/a_test.cc', '"carillon/store/memory/s.h"'),
                ('carillon/store/memory/a.h', '"carillon/server/s.h"'),
                ('carillon/server/a.h', '"apps/carillon/c.h"'),
                ('bench/a.h', '"tests/sim/s.h"'),
                # Angle brackets are no way round it.
                ('carillon/base/a.h', '<carillon/wheel/w.h>')]:
            self.assertEqual(self.includes(path, target), ['layer'], (path, target))

    def test_a_sideways_include_is_caught(self):
        for path, target in [
                ('carillon/store/memory/a.h', '"carillon/store/rocksdb/b.h"'),
                ('carillon/store/rocksdb/a.h', '"carillon/store/memory/b.h"'),
                ('carillon/store/memory/a.h', '"carillon/protocol/beanstalk/b.h"'),
                ('carillon/protocol/beanstalk/a.h', '"carillon/store/s.h"'),
                ('carillon/protocol/beanstalk/a.h', '"carillon/protocol/http/b.h"'),
                ('carillon/store/a.h', '"carillon/store/rocksdb/b.h"'),
                ('apps/carillon/a.h', '"bench/server/b.h"'),
                ('examples/demo/a.h', '"apps/carillon/b.h"')]:
            self.assertEqual(self.includes(path, target), ['layer'], (path, target))

    def test_own_folder_and_downward_includes_pass(self):
        for path, target in [
                ('carillon/wheel/a.h', '"carillon/base/b.h"'),
                ('carillon/wheel/a.h', '"carillon/wheel/internal/b.h"'),
                ('carillon/store/rocksdb/a.h', '"carillon/store/b.h"'),
                ('carillon/store/rocksdb/a.h', '"carillon/broker/b.h"'),
                ('carillon/server/a.h', '"carillon/store/rocksdb/b.h"'),
                ('apps/carillon/a.h', '"carillon/server/b.h"'),
                ('tests/sim/a.h', '"carillon/store/memory/b.h"')]:
            self.assertEqual(self.includes(path, target), [], (path, target))

    def test_includes_go_by_the_path_from_the_root(self):
        self.assertEqual(self.includes('carillon/base/a.h', '"../wheel/w.h"'), ['layer'])
        tree = {'carillon/base/a.h': header('#include "b.h"\n'), 'carillon/base/b.h': header('')}
        self.assertEqual(findings_in(tree), [('carillon/base/a.h', 'layer')])
        # A program may name the headers of its own folder, but not of another.
        tree = {'examples/demo/a.h': header('#include "b.h"\n'), 'examples/demo/b.h': header('')}
        self.assertEqual(findings_in(tree), [])
        tree = {'examples/demo/a.h': header('#include "b.h"\n'), 'examples/b.h': header('')}
        self.assertEqual(findings_in(tree), [('examples/demo/a.h', 'layer')])

    def test_a_folder_without_a_layer_is_caught(self):
        self.assertEqual(findings_in({'carillon/misc/a.h': header('')}),
                         [('carillon/misc/a.h', 'layer')])

    def test_the_library_needs_only_the_standard_library(self):
        # A header that is not installed is for tests.
        listing = CMAKE_SPDX + 'carillon_layer(x HEADERS {} DEPS y)\n'
        tree = {'carillon/wheel/a_fixture.h': header('#include <gtest/gtest.h>\n'),
                'carillon/wheel/a_test.cc': SPDX + '#include "carillon/wheel/a_fixture.h"\n',
                'carillon/wheel/CMakeLists.txt': listing.format('b.h') + '# \nt(a_test.cc)'}
        self.assertEqual(findings_in(tree), [])
        tree['carillon/wheel/CMakeLists.txt'] = listing.format('b.h\n  a_fixture.h') + 'a_test.cc'
        self.assertEqual(findings_in(tree), [('carillon/wheel/a_fixture.h', 'layer')])
        self.assertEqual(self.includes('carillon/wheel/a.h', '<absl/hash/hash.h>'), ['layer'])
        self.assertEqual(self.includes('carillon/timer/a.cc', '<fmt/format.h>'), ['layer'])
        self.assertEqual(self.includes('carillon/timer/a.cc', '"fmt/format.h"'), ['layer'])
        self.assertEqual(self.includes('carillon/broker/a.h', '"absl/hash/hash.h"'), [])
        self.assertEqual(self.includes('carillon/timer/asio_timer.h', '<boost/asio.hpp>'), [])
        self.assertEqual(self.includes('carillon/timer/a_test.cc', '<gtest/gtest.h>'), [])
        self.assertEqual(self.includes('carillon/timer/a.cc', '<sys/timerfd.h>'), [])

    def test_the_broker_and_protocols_have_no_socket_disk_or_thread(self):
        for folder in ('carillon/broker', 'carillon/protocol/beanstalk'):
            for target in ('<thread>', '<fstream>', '<boost/asio/ip/tcp.hpp>', '<sys/socket.h>'):
                self.assertEqual(self.includes(f'{folder}/a.cc', target), ['layer'], target)
            self.assertEqual(self.includes(f'{folder}/a.cc', '<fmt/format.h>'), [])
        self.assertEqual(self.includes('carillon/wheel/a.h', '<ctime>'), ['layer'])


class Files(unittest.TestCase):
    def rules(self, path, text, **more):
        return sorted({rule for name, rule in findings_in({path: text, **more}) if name == path})

    def test_spdx(self):
        self.assertEqual(self.rules('carillon/base/a.cc', 'int x;\n'), ['spdx'])
        self.assertEqual(self.rules('tests/run.py', 'pass\n'), ['spdx'])
        self.assertEqual(self.rules('bench/java/Peer.java', 'interface Peer {}\n'), ['spdx'])
        self.assertEqual(self.rules('tests/run.py', '#!/bin/x\n' + CMAKE_SPDX), [])

    def test_pragma_once(self):
        self.assertEqual(self.rules('carillon/base/a.h', SPDX + '// #pragma once\n'),
                         ['pragma-once'])
        self.assertEqual(self.rules('carillon/base/a.h', header('')), [])

    def test_columns_count_characters_not_bytes(self):
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + '//' + 98 * 'ä' + '\n'), [])
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + '//' + 99 * 'a' + '\n'),
                         ['columns'])

    def test_a_long_file_needs_a_reason(self):
        body = 'int x;\n' * 600
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + body), ['lines'])
        self.assertEqual(
            self.rules('carillon/base/a.cc', SPDX + '// Long because it is a table.\n' + body), [])

    def test_a_todo_has_a_kind_and_now_is_not_one_that_lands(self):
        for text in ('// TODO: x', '// TODO(now): x', '// TODO(name): x', '// FIXME', '// XXX: x'):
            self.assertEqual(self.rules('carillon/base/a.cc', SPDX + text + '\n'), ['todo'], text)
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + '// TODO(perf): x\n'), [])

    def test_a_file_that_no_cmake_names_is_dead(self):
        listing = {'carillon/base/CMakeLists.txt': CMAKE_SPDX + 'lib(SOURCES a.cc)\n'}
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX, **listing), [])
        self.assertEqual(self.rules('carillon/base/ba.cc', SPDX, **listing), ['dead-file'])
        self.assertEqual(self.rules('carillon/base/a.c.cc', SPDX, **listing), ['dead-file'])

    def test_a_header_of_a_program_is_dead_if_nothing_includes_it(self):
        listing = {'apps/x/CMakeLists.txt': CMAKE_SPDX + 'program(main.cc)\n'}
        self.assertEqual(self.rules('apps/x/a.h', header(''), **listing), ['dead-file'])
        listing['apps/x/main.cc'] = SPDX + '#include "apps/x/a.h"\n'
        self.assertEqual(self.rules('apps/x/a.h', header(''), **listing), [])
        # A library has to name it, or it is not installed; what its tests share is not.
        listing = {'carillon/base/CMakeLists.txt': CMAKE_SPDX + 'lib(a.cc)\n',
                   'carillon/base/a.cc': SPDX + '#include "carillon/base/a_testing.h"\n'}
        self.assertEqual(self.rules('carillon/base/a_testing.h', header(''), **listing), [])
        listing = {'carillon/base/CMakeLists.txt': CMAKE_SPDX + 'lib(a.cc)\n',
                   'carillon/base/a.cc': SPDX + '#include "carillon/base/a.h"\n'}
        self.assertEqual(self.rules('carillon/base/a.h', header(''), **listing), ['dead-file'])

    def test_a_file_may_be_named_from_another_folder(self):
        for folder, name in [('carillon/base', 'internal/a.cc'), ('carillon/wheel', '../base/a.cc'),
                             ('cmake', '${PROJECT_SOURCE_DIR}/carillon/base/a.cc')]:
            path = 'carillon/base/internal/a.cc' if 'internal' in name else 'carillon/base/a.cc'
            listings = {os.path.dirname(path) + '/CMakeLists.txt': CMAKE_SPDX}
            self.assertEqual(self.rules(path, SPDX, **listings), ['dead-file'])
            listings[folder + '/CMakeLists.txt'] = CMAKE_SPDX + f'lib(SOURCES {name})\n'
            self.assertEqual(self.rules(path, SPDX, **listings), [], name)

    def test_words_the_glossary_forbids(self):
        for code in ('class TimerManager {};', 'Tick jiffies;', 'void make_helper();',
                     'struct JobInfo {};'):
            self.assertEqual(self.rules('carillon/timer/a.cc', SPDX + code + '\n'), ['word'], code)
        self.assertEqual(self.rules('carillon/wheel/a.cc', SPDX + 'int bucket;\n'), ['word'])
        for code in ('class TokenBucket {};', 'auto* p = v.data();', '// the manager',
                     'auto s = "helper";', 'int n = 1\'000\'000;'):
            self.assertEqual(self.rules('carillon/blocks/a.cc', SPDX + code + '\n'), [], code)

    def test_code_after_a_digit_separator_is_still_read(self):
        code = "int n = 1'000; int helper = 2'000;\n"
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + code), ['word'])

    def test_a_rule_is_lifted_for_a_line_with_a_reason_only(self):
        line = 'int helper;  // lint-allow(word): the name of the system call\n'
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + line), [])
        above = '// lint-allow(word): the name of the system call\nint helper;\n'
        self.assertEqual(self.rules('carillon/base/a.cc', SPDX + above), [])
        for wrong in ('// lint-allow(word):', '// lint-allow(todo): another rule'):
            text = SPDX + 'int helper;  ' + wrong + '\n'
            self.assertEqual(self.rules('carillon/base/a.cc', text), ['word'])


class WrapComments(unittest.TestCase):
    def test_the_last_words_move_to_the_next_line_of_the_paragraph(self):
        word = 'abcdefghi'
        long = ' '.join(10 * [word])
        self.assertEqual(wrap_comments.wrap(f'/// {long}\n/// more'),
                         f'/// {long[:-10]}\n/// {word} more')
        self.assertEqual(wrap_comments.wrap(f'  // {long}\nint x;'),
                         f'  // {long[:-10]}\n  // {word}\nint x;')

    def test_what_stands_under_a_heading_stays_there(self):
        long = ' '.join(10 * ['abcdefgh'])
        self.assertEqual(
            wrap_comments.wrap(f'/// Threads:  {long} last\n///           more.\n/// Cost: none.'),
            f'/// Threads:  {long[:-9]}\n///           abcdefgh last more.\n/// Cost: none.')
        self.assertEqual(wrap_comments.wrap(f'/// Threads:  {long} last\n/// Cost: none.'),
                         f'/// Threads:  {long[:-9]}\n///           abcdefgh last\n/// Cost: none.')

    def test_tables_code_and_what_fits_are_left_alone(self):
        for text in ('// ' + 'a ' * 48, '// | ' + 'a ' * 60, 'int x;  // ' + 'a ' * 60,
                     '// ' + 'a' * 120, 's = "// ' + 'a ' * 60 + '";'):
            self.assertEqual(wrap_comments.wrap(text), text)


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        tree = {'docs/README.md': '[a](a.md)',
                'docs/a.md': '# A b: c\n[ok](b.md) [ok](b.md#one-two) [ok](#a-b-c)\n',
                'docs/b.md': '# One two\n[web](https://example.org/x)\n`[code](nowhere)`\n'}
        self.assertEqual(findings_in(tree), [])
        tree['docs/b.md'] = '[gone](../c.md)\n'
        self.assertEqual(findings_in(tree), [('docs/a.md', 'link'), ('docs/b.md', 'link')])

    def test_a_document_that_nobody_links_to_is_caught(self):
        tree = {'docs/README.md': '[a](x/a.md)', 'docs/x/a.md': '', 'docs/x/b.md': '',
                'docs/x/c.md': ''}
        self.assertIn(('docs/x/c.md', 'orphan'), findings_in(tree))
        self.assertNotIn(('docs/x/a.md', 'orphan'), findings_in(tree))

    def test_scenarios_have_tests_that_exist(self):
        rows = ''.join(f'| {name} what | right | `Suite.{name}*` |\n' for name in lint.SCENARIOS)
        rows = rows.replace('`Suite.A1*`', '`Suite.A1Works`, `kill_loop`, `test_of_a`')
        tests = ''.join(f'TEST(Suite, {name}Works) {{}}\n' for name in lint.SCENARIOS)
        tree = {'docs/README.md': '[t](internals/testing.md)', lint.SCENARIOS_IN: rows,
                'bench/a_test.cc': SPDX + tests,
                'bench/b_test.py': CMAKE_SPDX + 'def test_of_a(): pass\n',
                'tests/CMakeLists.txt': CMAKE_SPDX + 'add_test(NAME kill_loop)\n'}
        self.assertEqual(findings_in(tree), [])
        for change in (('TEST(Suite, F5Works) {}\n', ''), ('NAME kill_loop', 'NAME other'),
                       ('test_of_a()', 'test_of_b()'), ('| E29 what', '| what')):
            changed = {path: text.replace(*change) for path, text in tree.items()}
            self.assertEqual(findings_in(changed), [(lint.SCENARIOS_IN, 'scenario')], change)

    def test_decisions_are_listed_and_numbered_once(self):
        tree = {'docs/README.md': '[decisions](decisions/README.md)',
                'docs/decisions/README.md': '[1](0001-a.md)\n', 'docs/decisions/0001-a.md': ''}
        self.assertEqual(findings_in(tree), [])
        tree['docs/decisions/0001-b.md'] = ''
        self.assertEqual(findings_in(tree), [('docs/decisions/0001-b.md', 'decision')] * 2 +
                         [('docs/decisions/0001-b.md', 'orphan')])

    def test_a_quote_is_what_the_file_says(self):
        tree = {'README.md': '<!-- quote: examples/a.cc -->\n```cpp\nint x;\nint y;\n```\n',
                'examples/a.cc': SPDX + '  int x;\n\n  int y;\n'}
        self.assertEqual(findings_in(tree), [])
        tree['examples/a.cc'] = SPDX + 'int x;\nint z;\nint y;\n'
        self.assertEqual(findings_in(tree), [('README.md', 'quote')])


if __name__ == '__main__':
    unittest.main()
