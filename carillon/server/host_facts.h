// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the operating system says of this process and its machine.

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>

#include "carillon/base/result.h"
#include "carillon/protocol/beanstalk/server_stats.h"

namespace carillon::server {

/// Fills in pid, hostname, os, platform and the times used so far.
void describe_process(protocol::beanstalk::ServerStats& stats);

/// The memory of this process that is in RAM; 0 if the system does not say.
[[nodiscard]] std::uint64_t resident_bytes();

/// 16 random hexadecimal digits.
[[nodiscard]] std::string random_id();

/// Blocks SIGTERM, SIGINT, SIGUSR1, SIGUSR2 and SIGHUP in this thread, and in those that it starts,
/// while it lives; they come when it ends, even if they were blocked before: a server has to be
/// told.
class SignalsHeldBack {
 public:
  SignalsHeldBack() noexcept;
  ~SignalsHeldBack();
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;
};

/// An error that says why this process may not write to `folder`; none if it may, or if there is
/// no such folder yet.
[[nodiscard]] Result<void> check_writable(const std::string& folder);

/// What a process without privileges may still write to the disk of `folder`; nothing if the system
/// does not say.
[[nodiscard]] std::optional<std::uint64_t> free_bytes_of(const std::string& folder);

/// Raises the soft limit of open files to the hard one; returns what it is then.
std::uint64_t raise_file_limit() noexcept;

}  // namespace carillon::server
