// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Ctrl-C (and SIGTERM, SIGHUP) as an exception at a safe point, so that the server and the folder
/// are cleaned up on the way out.

#include <exception>

namespace carillon::order_demo {

class Interrupted : public std::exception {
 public:
  [[nodiscard]] const char* what() const noexcept override { return "interrupted"; }
};

/// From now on those signals only set a flag.
void catch_interrupts();
[[nodiscard]] bool interrupted() noexcept;

}  // namespace carillon::order_demo
