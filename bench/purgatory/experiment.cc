// SPDX-License-Identifier: Apache-2.0
#include "bench/purgatory/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bench/common/interrupt.h"
#include "bench/common/process.h"
#include "carillon/base/random.h"

namespace carillon::bench {
namespace {

constexpr std::int64_t kTimeoutMs =
    std::chrono::duration_cast<std::chrono::milliseconds>(kRequestTimeout).count();

}  // namespace

Script::Script(const Mix& mix, double rate, double seconds) : seconds_(seconds) {
  constexpr double kQuartile = 0.67448975;  // of the normal distribution
  constexpr std::uint64_t kSeed = 1'702'021;
  constexpr std::uint64_t kPossibleKeys = 100;
  Random random(kSeed);
  for (std::uint64_t& key : keys_) key = random.below(kPossibleKeys);
  std::exponential_distribution<double> interval(rate / 1e3);
  std::lognormal_distribution<double> takes(std::log(mix.p50_ms),
                                            std::log(mix.p75_ms / mix.p50_ms) / kQuartile);
  double at = 0;
  while ((at += interval(random)) < seconds * 1e3) {
    const auto arrives = static_cast<std::int64_t>(at);
    const auto ms = static_cast<std::int64_t>(std::min(takes(random), 1e9));
    if (ms < kTimeoutMs) completions_.push_back(static_cast<std::uint32_t>(requests_.size()));
    requests_.push_back({arrives, ms});
    last_end_ms_ = std::max(last_end_ms_, arrives + std::min(ms, kTimeoutMs));
  }
  const auto ends = [this](std::uint32_t i) {
    return requests_[i].arrives_ms + requests_[i].takes_ms;
  };
  std::stable_sort(completions_.begin(), completions_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return ends(a) < ends(b); });
}

void Fates::end(std::size_t request, bool expired) {
  const std::int64_t now = now_ns();
  ends_[request].fetch_add(1, std::memory_order_relaxed);
  if (expired) {
    expired_.fetch_add(1, std::memory_order_relaxed);
    if (now - watched_at_[request] < kRequestTimeout.count()) ++early_;
  }
  // Of two at the same time either will do.
  if (now > last_end_.load(std::memory_order_relaxed)) {
    last_end_.store(now, std::memory_order_relaxed);
  }
  ended_.fetch_add(1, std::memory_order_release);
}

void Fates::verify(const Script& script) const {
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    if (ends_[i] != 1) {
      throw BenchError(fmt::format("request {} ended {} times", i, ends_[i].load()));
    }
  }
  if (early_ != 0) throw BenchError(fmt::format("{} expired early", early_.load()));
  const std::size_t least = script.requests().size() - script.completions().size();
  if (expired_ < least) {
    throw BenchError(fmt::format("{} were to expire, {} did", least, expired_.load()));
  }
}

}  // namespace carillon::bench
