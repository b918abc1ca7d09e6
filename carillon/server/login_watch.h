// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who logs in too late, and who with wrong tokens.

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "carillon/base/clock.h"
#include "carillon/server/log.h"
#include "carillon/server/log_pace.h"
#include "carillon/server/wake_timer.h"
#include "carillon/wheel/hierarchical_wheel.h"

namespace carillon::server {

/// Each client that has to log in has a time for it, from its accept. What fails is counted, and
/// logged at a pace: with where it came from, never with what was shown.
///
/// Threads:  the thread of its loop.
/// Lifetime: the clock must outlive it. A hook that goes is not waited for.
/// Cost:     O(1) for each client; no wake-up while nobody is waited for.
class LoginWatch {
 public:
  /// `on_late`: the time of a hook is over. It may have logged in meanwhile.
  using OnLate = std::function<void(WheelHook&)>;
  LoginWatch(boost::asio::io_context& loop, const Clock& clock, Log log, OnLate on_late);

  /// For those that come from now on.
  void set_timeout(Span timeout) noexcept { timeout_ = timeout; }
  /// Its time begins.
  void watch(WheelHook& hook);

  /// A client was closed since it did not log in.
  void note_late(const std::string& peer);
  /// A client showed a token that nobody knows. `protocol`: "beanstalk" or "http".
  void note_failed(std::string_view protocol, const std::string& peer);

  [[nodiscard]] std::uint64_t late() const noexcept { return late_.count(); }
  [[nodiscard]] std::uint64_t failed(std::string_view protocol) const noexcept {
    return protocol == "http" ? failed_http_.count() : failed_.count();
  }

 private:
  void on_wake();

  const Clock& clock_;
  const Log log_;
  const OnLate on_late_;
  Span timeout_{};
  HierarchicalWheel deadlines_;  // In ms of the clock.
  WakeTimer wake_;
  LogPace late_;
  LogPace failed_;
  LogPace failed_http_;
};

}  // namespace carillon::server
