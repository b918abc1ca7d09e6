// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the dashboard draws, as events: gathered from the partitions once a second while somebody
/// looks, and for a while after that, so that a page that is loaded again has the last minutes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/clock.h"
#include "carillon/broker/reply.h"
#include "carillon/server/http_context.h"
#include "carillon/server/stats_series.h"

namespace carillon::server {

/// Makes the documents of two events:
///
///     stats      the server, jobs, rates, lateness, when jobs fall due, the wheel, the tubes that
///                matter most
///     history    the points of the last minutes: [at_ms, puts, fired, deleted, p50, p99], where
///                rates are a second and lateness is ms or null
///
/// Threads:   the network thread.
/// Lifetime:  the context, the desk and the clock must outlive it. The desk is for nothing else:
///            what asks for the wheel is blocked until it has been looked through.
/// Callbacks: `publish` may be called before gather() returns.
/// Cost:      a gathering asks each partition three times, and for kTubesAsked tubes at most; with
///            more tubes each is asked for in turn. The wheel is walked over, some 10 ms for each
///            million jobs in memory (walk_wheel of broker_bench): so with many jobs it is asked
///            for less often (wheel_interval()), and meanwhile shown as it was.
class DashboardFeed {
 public:
  using Publish = std::function<void(std::string_view event, std::string_view json)>;

  static constexpr std::size_t kTubesAsked = 256;
  static constexpr std::size_t kTubesShown = 50;
  /// So long after the last one who looked, counters are still sampled.
  static constexpr Span kMemory = std::chrono::minutes(10);
  /// A second for each 100,000 jobs in memory begun; at most 10.
  [[nodiscard]] static Span wheel_interval(std::uint64_t jobs) noexcept {
    return std::chrono::seconds(1 + std::min<std::uint64_t>(jobs / 100'000, 9));
  }

  DashboardFeed(HttpContext& context, HttpDesk& desk, const Clock& clock, Publish publish)
      : context_(context), desk_(desk), clock_(clock), publish_(std::move(publish)) {}

  /// Asks the partitions; publishes `stats` when they have answered, or `unavailable` if one
  /// cannot. One gathering at a time: asked for another, it does nothing.
  /// `is_watched`: else only counters are sampled, and nothing is published.
  void gather(bool is_watched);
  /// Whether gather() is still wanted.
  [[nodiscard]] bool is_wanted(bool is_watched);

  /// The document of the event `history`.
  [[nodiscard]] std::string history() const;
  /// The last `stats`, for who has just come; empty if it is not fresh.
  [[nodiscard]] const std::string& last_stats() const noexcept { return last_stats_; }

 private:
  struct Gathering;

  void on_counters(const std::shared_ptr<Gathering>& gathering,
                   const std::vector<broker::Reply>& replies);
  void ask_for_names(const std::shared_ptr<Gathering>& gathering);
  void on_wheels(const std::shared_ptr<Gathering>& gathering,
                 const std::vector<broker::Reply>& replies);
  void on_names(const std::shared_ptr<Gathering>& gathering,
                const std::vector<broker::Reply>& replies);
  void finish(const Gathering& gathering);
  void fail();

  HttpContext& context_;
  HttpDesk& desk_;
  const Clock& clock_;
  const Publish publish_;
  StatsSeries series_;
  Instant sampled_at_{};
  std::optional<broker::WheelView> wheel_;  // As last seen ...
  Instant wheel_at_{};                      // ... then.
  Instant watched_at_{};
  bool gathering_ = false;
  std::map<std::string, broker::TubeStats, std::less<>> tubes_;  // As last heard of.
  std::string next_tube_;  // Where the next round of asking begins.
  std::string last_stats_;
};

}  // namespace carillon::server
