// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Kafka's experiment with its purgatory (TestPurgatoryPerformance): requests that arrive at
/// random, each waits until something completes it, or for 200 ms.
///
///     generator, one thread    a request: a payload of 100 bytes, watched under 3 keys
///     completer, one thread    completes each when its time has come, unless that is after 200 ms
///     purgatory                expires the others

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "carillon/base/time.h"

namespace carillon::bench {

/// How long requests take to be completed: log-normal, by two of its quantiles.
struct Mix {
  std::string_view name;
  double p50_ms;
  double p75_ms;
};
inline constexpr Mix kLowMix = {"Low", 20, 60};      // 8 % expire
inline constexpr Mix kHighMix = {"High", 200, 400};  // 50 % expire

inline constexpr Span kRequestTimeout = std::chrono::milliseconds(200);
inline constexpr std::size_t kPayloadBytes = 100;
using RequestKeys = std::array<std::uint64_t, 3>;

/// All that is random, drawn before the clock runs, from a fixed seed. Times are in whole ms, as in
/// Kafka's.
class Script {
 public:
  /// Requests that arrive within `seconds`, `rate` a second on average.
  Script(const Mix& mix, double rate, double seconds);

  struct Request {
    std::int64_t arrives_ms;
    std::int64_t takes_ms;
  };

  [[nodiscard]] const std::vector<Request>& requests() const { return requests_; }
  /// Those that take less than the timeout, in the order in which they are to be completed.
  [[nodiscard]] const std::vector<std::uint32_t>& completions() const { return completions_; }
  /// When the last is to end.
  [[nodiscard]] std::int64_t last_end_ms() const { return last_end_ms_; }
  /// Three of a hundred, the same for all requests.
  [[nodiscard]] const RequestKeys& keys() const { return keys_; }
  /// Seconds over which requests arrive.
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  double seconds_;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> completions_;
  std::int64_t last_end_ms_ = 0;
  RequestKeys keys_;
};

/// What has become of the requests: each is to end once.
class Fates {
 public:
  explicit Fates(std::size_t requests) : ends_(requests), watched_at_(requests) {}

  /// Just before a request is watched.
  void arrive(std::size_t request, std::int64_t now) { watched_at_[request] = now; }
  /// From any thread.
  void end(std::size_t request, bool expired);

  [[nodiscard]] bool all_ended() const { return ended_.load() >= ends_.size(); }
  [[nodiscard]] std::size_t expired() const { return expired_.load(); }
  [[nodiscard]] std::int64_t last_end() const { return last_end_.load(); }
  /// Throws BenchError unless each has ended once, none expired early, and all those expired that
  /// nothing completes.
  void verify(const Script& script) const;

 private:
  std::vector<std::atomic<std::uint8_t>> ends_;
  std::vector<std::int64_t> watched_at_;  // ns
  std::atomic<std::size_t> ended_ = 0;
  std::atomic<std::size_t> expired_ = 0;
  std::atomic<std::size_t> early_ = 0;
  std::atomic<std::int64_t> last_end_ = 0;
};

/// A purgatory of either kind.
struct PurgatoryEntry {
  std::string_view name;
  /// Runs a script in this process; values done_k (requests a second that it kept up with, in
  /// thousands), cpu_us (of the whole process, a request), expired (share, %). Throws BenchError.
  Measurement (*run)(const Script&);
};

/// Ours first.
[[nodiscard]] const std::vector<PurgatoryEntry>& purgatories();

}  // namespace carillon::bench
