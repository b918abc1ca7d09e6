// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Where a benchmark runs: what a line of results says of the machine, and what is installed on it.

#include <filesystem>
#include <string>

namespace carillon::bench {

/// What is the same for all lines of a run.
struct Environment {
  std::string commit;
  std::string cpu;
  std::string compiler;
  std::string preset;
  std::string build_type;
  std::string filesystem;  ///< Empty if nothing was written.
  std::string date;        ///< UTC, ISO 8601, to the second.
  double load_before;      ///< 1-minute load average when the run began: others on the machine.
};

/// `dir` is where data will be written, or empty.
[[nodiscard]] Environment describe_environment(const std::filesystem::path& dir);

/// The type of the filesystem that holds `path` ("ext4", "tmpfs"), from /proc/self/mountinfo.
[[nodiscard]] std::string filesystem_of(const std::filesystem::path& path);

/// Where `program` is along PATH (or itself, if it holds a slash and is executable); else empty.
[[nodiscard]] std::string find_program(const std::string& program);

}  // namespace carillon::bench
