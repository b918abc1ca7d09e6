// SPDX-License-Identifier: Apache-2.0
#include "bench/common/interrupt.h"

#include <csignal>

namespace carillon::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_signal(int) { interrupted = 1; }

}  // namespace

void catch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_signal;  // without SA_RESTART: a wait must end
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);  // a server that dies is an error of write(), not our end
}

void check_interrupt() {
  if (interrupted != 0) throw Interrupted();
}

}  // namespace carillon::bench
