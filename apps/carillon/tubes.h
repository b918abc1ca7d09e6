// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The tubes of a server, as its statistics tell them.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "carillon/server/beanstalk_client.h"

namespace carillon::app {

struct TubeLine {
  std::string name;
  std::uint64_t ready = 0;
  std::uint64_t delayed = 0;
  std::uint64_t reserved = 0;
  std::uint64_t buried = 0;
  std::uint64_t watching = 0;  ///< Without the connection that asks.
  std::uint64_t waiting = 0;
  std::uint64_t total = 0;  ///< Jobs put since the server began.
  std::uint64_t pause_left_s = 0;
};

/// The first `most` tubes, in the server's order, and how many more there are. Throws a Failure.
[[nodiscard]] std::vector<TubeLine> read_tubes(server::BeanstalkClient& client, std::size_t most,
                                               std::uint64_t& left_out);

}  // namespace carillon::app
