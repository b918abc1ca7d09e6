#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The parts of ./x that could be wrong without anybody noticing: how it counts tests, what it would
# install, and that what it says it installs is what it says in one place only.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
# shellcheck source=x
source "$root/x"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

expect() {  # WHAT WANTED GOT
  [[ $2 == "$3" ]] && return
  printf '%s: wanted "%s", got "%s"\n' "$1" "$2" "$3"
  failures=$((failures + 1))
}

junit() {  # STATUS of ctest, then the lines of test cases
  printf '<testsuite name="x"\n\ttests="%s"\n\t>\n' "$(($# - 1))" > "$work/junit.xml"
  printf '\t<testcase name="t" classname="t" time="0" %s\n\t</testcase>\n' "${@:2}" \
    >> "$work/junit.xml"
  summary "$work/junit.xml" "$1" && echo ok || echo failed
}

run='status="run">' fail='status="fail">' off='status="disabled">'
skip=$'status="notrun">\n\t\t<skipped message="SKIP_RETURN_CODE=77"/>'
absent=$'status="notrun">\n\t\t<skipped message="Unable to find executable"/>'
unset_up=$'status="notrun">\n\t\t<skipped message="Fixture dependency failed"/>'
talks=$'status="run">\n\t\t<system-out>&lt;testcase status="fail"></system-out>'

expect 'all pass' $'2 passed, 0 failed\nok' "$(junit 0 "$run" "$run")"
expect 'one fails' $'1 passed, 1 failed\nfailed' "$(junit 8 "$run" "$fail")"
expect 'skipped' $'1 passed, 0 failed, 2 skipped\nok' "$(junit 0 "$run" "$skip" "$off")"
expect 'not run' $'1 passed, 2 failed\nfailed' "$(junit 8 "$run" "$absent" "$unset_up")"
expect 'all skipped' $'0 passed, 0 failed, 1 skipped\nfailed' "$(junit 0 "$skip")"
expect 'ctest knows better' $'1 passed, 1 failed\nfailed' "$(junit 8 "$run")"
expect 'output is not counted' $'1 passed, 0 failed\nok' "$(junit 0 "$talks")"

# shellcheck disable=SC2317  # Called by packages_of.
expect 'node that is there' '' "$(
  command() { return 0; }
  packages_of test | grep -E '^(nodejs|npm)$' || true
)"
# shellcheck disable=SC2317
expect 'node that is not there' 'nodejs npm' "$(
  command() { return 1; }
  packages_of test | grep -E '^(nodejs|npm)$' | xargs
)"
expect 'demo needs no test library' '' "$(packages_of build | grep -E 'gtest|beanstalkd' || true)"
# shellcheck disable=SC2317
expect 'tidy of nothing says so' 'nothing is checked' "$(
  changed_sources() { :; }
  lint_tidy changed 2>&1 | grep -o 'nothing is checked'
)"
# shellcheck disable=SC2317
expect 'a format that fails says what mends it' './x fmt mends it' "$(
  xargs() { return 1; }
  lint_format 2>&1 | grep -o './x fmt mends it'
)"
expect 'groups' 'bench build dev package test web' "$(
  grep -v '^#' "$packages_file" | cut -d' ' -f1 | sort -u | xargs
)"
expect 'packages named outside the list' '' "$(
  grep -nE '[a-z0-9]+-dev( |$)' "$root/x" "$root/.ci/run" || true
)"

((failures == 0)) && echo 'x: ok'
