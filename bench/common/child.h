// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Work that is done in a process of its own, so that it finds memory as a program does that has
/// just begun, and leaves nothing behind.

#include <functional>
#include <string>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::bench {

/// Runs `arguments` (the program first, found along PATH) and returns what it wrote to its standard
/// output.
///
/// Lifetime: the child is killed when this function is left, and by the kernel should this process
///           die first.
/// Errors:   throws BenchError with the end of its standard error if it does not exit with 0, or
///           not within `limit`; Interrupted.
[[nodiscard]] std::string output_of_program(const std::vector<std::string>& arguments, Span limit);

/// The same of a fork of this process that runs `work` and returns what that returned; an exception
/// in it is the child's error.
///
/// Pre: no other thread runs in this process.
[[nodiscard]] std::string output_of_fork(const std::function<std::string()>& work, Span limit);

}  // namespace carillon::bench
