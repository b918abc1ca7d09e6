// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Wakes an event loop at an instant of the boot clock, which asio's own timers cannot: they stop
/// while the machine is suspended.

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>

#include "carillon/base/time.h"

namespace carillon::server {

/// Time:    never early; late by what the kernel and the loop add.
/// Threads: the thread of its loop.
/// Cost:    a system call when the instant changes; none when set() repeats it. No wake-up when no
///          instant is set.
class WakeTimer {
 public:
  WakeTimer(boost::asio::io_context& loop, std::function<void()> on_wake);
  /// The loop must not run any more, or run no handler of this timer: those refer to it.
  ~WakeTimer() = default;
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;

  /// Wakes at `at` (at once if that has passed), and at no other instant set before; nullopt:
  /// never.
  void set(std::optional<Instant> at);

 private:
  void wait();

  boost::asio::posix::stream_descriptor timer_;
  std::function<void()> on_wake_;
  std::optional<Instant> at_;
};

}  // namespace carillon::server
