// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the operating system says of this process and its machine.

#include <cstdint>
#include <string>

#include "carillon/protocol/beanstalk/server_stats.h"

namespace carillon::server {

/// Fills in pid, hostname, os, platform and the times used so far.
void describe_process(protocol::beanstalk::ServerStats& stats);

/// 16 random hexadecimal digits.
[[nodiscard]] std::string random_id();

/// Raises the soft limit of open files to the hard one; returns what it is then.
std::uint64_t raise_file_limit() noexcept;

}  // namespace carillon::server
