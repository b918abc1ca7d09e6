// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <csignal>
#include <initializer_list>

namespace carillon::order_demo {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

extern "C" void on_signal(int) { g_interrupted = 1; }

}  // namespace

void catch_interrupts() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(signal, on_signal);
  }
}

bool interrupted() noexcept { return g_interrupted != 0; }

}  // namespace carillon::order_demo
