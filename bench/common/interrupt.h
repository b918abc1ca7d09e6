// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How a run ends before its time: an error of the surroundings, or Ctrl-C. Both unwind the stack,
/// which is what stops the servers and removes the folders.

#include <stdexcept>

namespace carillon::bench {

/// A peer, the disk or the network did not do what the load needs. The message is for people.
class BenchError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// SIGINT or SIGTERM arrived.
class Interrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
};

/// From now on SIGINT and SIGTERM only set a flag, and blocking calls return EINTR.
void catch_interrupts();

/// Throws Interrupted if a signal has arrived. Cost: one load.
void check_interrupt();

}  // namespace carillon::bench
