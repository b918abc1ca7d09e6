#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and installs the library without the server, and uses it as a stranger would.

    stage             build, install into a staging folder, move that folder elsewhere
    find_package      a project that finds the installed package
    add_subdirectory  a project that has carillon's sources inside
    pkg_config        one compiler call with the flags of carillon.pc
    headers           each installed header compiles by itself, and no other header is installed
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# What the library may need at run time: the language's own libraries.
RUNTIME_LIBRARIES = re.compile(r'lib(stdc\+\+|m|gcc_s|c|pthread)\.so\.\d+|ld-linux.*')
LIBRARY_FOLDERS = {'base', 'wheel', 'timer', 'blocks'}
WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Wshadow', '-Werror']


def run(*command, **options):
    print('+', ' '.join(command), flush=True)
    return subprocess.run(command, check=True, text=True, stdin=subprocess.DEVNULL, **options)


def fresh(path):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


class Install:
    def __init__(self, options):
        self.root = options.root
        self.work = options.work
        self.compiler = options.compiler
        self.main = options.main
        self.installed = os.path.join(self.work, 'moved')

    def stage(self):
        fresh(self.work)
        build = os.path.join(self.work, 'library')
        staged = os.path.join(self.work, 'staged')
        run('cmake', '-S', self.root, '-B', build, '-G', 'Ninja', '-DCMAKE_BUILD_TYPE=Release',
            f'-DCMAKE_CXX_COMPILER={self.compiler}', '-DCARILLON_SERVER=OFF',
            '-DCARILLON_TESTS=OFF', '-DCARILLON_BENCH=OFF')
        run('cmake', '--build', build)
        run('cmake', '--install', build, '--prefix', staged)
        os.rename(staged, self.installed)
        for folder, _, names in os.walk(self.installed):
            for name in names:
                path = os.path.join(folder, name)
                if path.endswith(('.cmake', '.pc')):
                    with open(path, encoding='utf-8') as f:
                        text = f.read()
                    assert self.work not in text and self.root not in text, \
                        f'{path} names a folder of the build'

    def find_package(self):
        self._project('find_package', f'-DCMAKE_PREFIX_PATH={self.installed}')

    def add_subdirectory(self):
        self._project('add_subdirectory', f'-DCARILLON_ROOT={self.root}')

    def _project(self, name, *settings):
        build = fresh(os.path.join(self.work, name))
        run('cmake', '-S', os.path.join(HERE, name), '-B', build, '-G', 'Ninja',
            f'-DCMAKE_CXX_COMPILER={self.compiler}', '--warn-uninitialized', *settings)
        run('cmake', '--build', build)
        self._check_program(os.path.join(build, 'downstream'))
        self._check_program(os.path.join(build, 'downstream_c'), 'tea is ready\n')
        # A guest installs and tests nothing of its own accord.
        guest = os.path.join(build, 'guest')
        run('cmake', '--install', build, '--prefix', guest)
        assert not os.path.exists(guest), f'{name}: installed {os.listdir(guest)}'

    def pkg_config(self):
        program = os.path.join(fresh(os.path.join(self.work, 'pkg_config')), 'downstream')
        environment = dict(os.environ, PKG_CONFIG_PATH=self._pkgconfig_folder())
        flags = run('pkg-config', '--cflags', '--libs', 'carillon', env=environment,
                    stdout=subprocess.PIPE).stdout.split()
        run(self.compiler, '-std=c++20', *WARNINGS, self.main, '-o', program, *flags)
        self._check_program(program)
        # C is compiled by a compiler for C, and linked by that for C++.
        in_c = program + '_c'
        compiled = in_c + '.o'
        source = os.path.splitext(self.main)[0] + '.c'
        run('cc', '-std=c11', *WARNINGS, '-c', source, '-o', compiled,
            *[flag for flag in flags if flag.startswith('-I')])
        run(self.compiler, compiled, '-o', in_c, *flags)
        self._check_program(in_c, 'tea is ready\n')

    def _pkgconfig_folder(self):
        for folder, _, names in os.walk(self.installed):
            if 'carillon.pc' in names:
                return folder
        raise AssertionError('carillon.pc is not installed')

    def _check_program(self, program, expected='tea is ready at tick 240\n'):
        said = run(program, stdout=subprocess.PIPE).stdout
        assert said == expected, f'the program said {said!r}'
        needed = run('readelf', '-d', program, stdout=subprocess.PIPE).stdout
        libraries = re.findall(r'\(NEEDED\).*\[(.*)\]', needed)
        assert libraries, 'readelf names no library'
        foreign = [name for name in libraries if not RUNTIME_LIBRARIES.fullmatch(name)]
        assert not foreign, f'the library needs more than the standard library: {foreign}'

    def headers(self):
        include = os.path.join(self.installed, 'include')
        assert os.listdir(include) == ['carillon'], os.listdir(include)
        folders = set(os.listdir(os.path.join(include, 'carillon')))
        assert {'base', 'wheel'} <= folders <= LIBRARY_FOLDERS, folders
        headers = sorted(
            os.path.relpath(os.path.join(folder, name), include)
            for folder, _, names in os.walk(include) for name in names)
        assert headers
        for header in headers:
            if 'asio' in os.path.basename(header):
                continue  # Needs Asio, which a user of it has.
            program = f'#include "{header}"\n#include "{header}"\n'
            print('+', header, flush=True)
            subprocess.run([self.compiler, '-std=c++20', *WARNINGS, '-fsyntax-only', '-x', 'c++',
                            '-I', include, '-'], input=program, text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--root', required=True)
    parser.add_argument('--work', required=True)
    parser.add_argument('--compiler', required=True)
    parser.add_argument('--main', required=True)
    parser.add_argument('way', choices=['stage', 'find_package', 'add_subdirectory', 'pkg_config',
                                        'headers'])
    options = parser.parse_args()
    getattr(Install(options), options.way)()
    return 0


if __name__ == '__main__':
    sys.exit(main())
