// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A strict alternation of client, server and disk, measured without the machine's moving it about.

#include <sched.h>

#include <filesystem>

namespace carillon::bench {

/// While it lives, this thread and the processes it starts run on one core: of the first eight it
/// may use, the one on which a bare append + fdatasync to `dir` is quickest.
///
/// Client, server and disk of a load of one connection, one at a time, take turns and never run at
/// once. Spread over cores each turn wakes a halted one, and the disk's interrupt goes to another
/// still: on a virtual machine that doubles the time of whoever is measured, and by how much is the
/// scheduler's whim.
///
/// Errors: throws BenchError.
class OneCore {
 public:
  explicit OneCore(const std::filesystem::path& dir);
  ~OneCore();
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace carillon::bench
