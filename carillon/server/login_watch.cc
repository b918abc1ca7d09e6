// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/login_watch.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace carillon::server {
namespace {

constexpr Span kLogInterval = std::chrono::seconds(10);

}  // namespace

LoginWatch::LoginWatch(boost::asio::io_context& loop, const Clock& clock, Log log, OnLate on_late)
    : clock_(clock),
      log_(std::move(log)),
      on_late_(std::move(on_late)),
      deadlines_(static_cast<Tick>(floor_ms(clock.now()))),
      wake_(loop, [this] { on_wake(); }),
      late_(kLogInterval),
      failed_(kLogInterval),
      failed_http_(kLogInterval) {}

void LoginWatch::watch(WheelHook& hook) {
  const auto at = static_cast<Tick>(ceil_ms(saturating_add(clock_.now(), timeout_)));
  // Else it wakes for an earlier one anyway.
  if (deadlines_.schedule(hook, at)) on_wake();
}

void LoginWatch::on_wake() {
  deadlines_.advance(static_cast<Tick>(floor_ms(clock_.now())),
                     [this](WheelHook& hook) { on_late_(hook); });
  std::optional<Instant> next;
  if (const std::optional<Tick> tick = deadlines_.next_deadline()) {
    next = Instant(saturating_span<std::chrono::milliseconds>(static_cast<std::int64_t>(*tick)));
  }
  wake_.set(next);
}

void LoginWatch::note_late(const std::string& peer) {
  const std::optional<std::uint64_t> count = late_.note(clock_.now());
  if (!count) return;
  log_(
      LogLevel::kWarning, "login_timeout",
      fmt::format("login-timeout: clients that did not log in: {}, the last from {}", *count, peer),
      {{"count", *count}, {"peer", peer}});
}

void LoginWatch::note_failed(std::string_view protocol, const std::string& peer) {
  const std::optional<std::uint64_t> count =
      (protocol == "http" ? failed_http_ : failed_).note(clock_.now());
  if (!count) return;
  log_(LogLevel::kWarning, "login_failed",
       fmt::format("tokens that nobody knows ({}): {}, the last from {}", protocol, *count, peer),
       {{"count", *count}, {"peer", peer}, {"protocol", protocol}});
}

}  // namespace carillon::server
