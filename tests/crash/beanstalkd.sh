#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Debian's beanstalkd behind carillon's command line, to run the crash tests and order_demo against
# it:  beanstalkd.sh serve --data DIR --listen ADDRESS:PORT
# BEANSTALKD_OPTIONS: "-f0" (the default: fsync before each answer), "-f50", ...; "no-log" to keep
# nothing, which every judge must notice.
set -eu
[ "$1" = serve ] && [ "$2" = --data ] && [ "$4" = --listen ] || exit 2
options=${BEANSTALKD_OPTIONS:--f0}
if [ "$options" = no-log ]; then
  exec beanstalkd -l "${5%:*}" -p "${5##*:}"
fi
# shellcheck disable=SC2086  # several options
exec beanstalkd -l "${5%:*}" -p "${5##*:}" -b "$3" $options
