// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The command line of order_demo.

#include <cstdint>
#include <filesystem>

namespace carillon::order_demo {

struct Options {
  std::filesystem::path server;
  std::uint32_t orders = 200'000;
  std::uint64_t seed = 0;
  std::int64_t min_delay_s = 2;
  std::int64_t max_delay_s = 20;
  bool kills = true;
  bool keeps = false;
  bool json = false;
};

/// Parses the command line; prints help or the error itself and exits when there is nothing to run.
Options parse_options(int argc, char** argv);

inline constexpr int kExitUsage = 2;

}  // namespace carillon::order_demo
