// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/script.h"

#include <algorithm>
#include <numeric>

#include "carillon/base/random.h"

namespace carillon::bench {
namespace {

constexpr std::uint32_t kNobody = ~std::uint32_t{0};

}  // namespace

Script::Script(std::size_t n, std::size_t refreshes)
    : rounds(std::clamp<std::size_t>(200'000 / n, 1, 1'000)),
      expiry_rounds(std::clamp<std::size_t>(20'000 / n, 1, 20)),
      timers(n),
      delays(n * rounds),
      order(n * rounds),
      picks(refreshes) {
  Random random(n);
  for (std::uint32_t& delay : delays) {
    delay = static_cast<std::uint32_t>(1 + random.below(kLongestDelay));
  }
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto these = std::span(order).subspan(round * n, n);
    std::iota(these.begin(), these.end(), std::uint32_t{0});
    std::shuffle(these.begin(), these.end(), random);
  }
  for (std::uint32_t& pick : picks) pick = static_cast<std::uint32_t>(random.below(n));
  for (std::size_t i = 0; i < n * expiry_rounds; ++i) expired.add_both(i % n, delays[i]);
  foresee_refreshes();
}

// A model of W2 that shares nothing with the subjects: timers lie in a list per tick, where they
// were armed last or, if refreshed since, earlier.
void Script::foresee_refreshes() {
  const Tick refresh_ticks = picks.size() / kRefreshesPerTick;
  const Tick end = 2 * kIdleTimeout + refresh_ticks + 1;
  std::vector<std::uint32_t> first(end + 1, kNobody);
  std::vector<std::uint32_t> next(timers, kNobody);
  std::vector<std::uint32_t> deadlines(timers);
  const auto park = [&](std::uint32_t id, Tick deadline) {
    deadlines[id] = static_cast<std::uint32_t>(deadline);
    next[id] = first[deadline];
    first[deadline] = id;
  };
  // `sink(id)` for what is due at `tick`; the rest moves on to its deadline.
  const auto visit = [&](Tick tick, const auto& sink) {
    for (std::uint32_t id = first[tick]; id != kNobody;) {
      const std::uint32_t following = next[id];
      if (deadlines[id] == tick) {
        sink(id);
      } else {
        park(id, deadlines[id]);
      }
      id = following;
    }
  };

  for (std::size_t i = 0; i < timers; ++i) {
    park(order[i], 1 + kIdleTimeout * i / timers + kIdleTimeout);
  }
  Tick now = kIdleTimeout;
  for (std::size_t i = 0; i < picks.size(); ++i) {
    deadlines[picks[i]] = static_cast<std::uint32_t>(now + kIdleTimeout);
    if ((i + 1) % kRefreshesPerTick != 0) continue;
    ++now;
    visit(now, [&](std::uint32_t id) {
      lapsed.add_both(id, now);
      park(id, now + kIdleTimeout);
    });
  }
  while (now < end) {
    ++now;
    visit(now, [&](std::uint32_t id) { drained.add_both(id, now); });
  }
}

SparseScript::SparseScript(Tick ticks, std::size_t rounds) : span(ticks), delays(kTimers * rounds) {
  Random random(ticks);
  for (std::size_t id = 0; id < delays.size(); ++id) {
    delays[id] = 1 + random.below(span);
    expired.add_both(id, delays[id]);
  }
}

LoopScript::LoopScript(std::size_t count) : connections(count) {
  constexpr Tick kLongestGap = kIdleTimeout - 1'000;
  ticks = kLongestDelay + (kPackets + 1) * kLongestGap + kIdleTimeout + 1;
  // Twice the same lives: to count the events of each tick, then to put them there.
  const auto live = [&](const auto& happens) {
    Random random(count + 5);
    for (std::uint32_t id = 0; id < count; ++id) {
      Tick tick = 1 + random.below(kLongestDelay);
      happens(tick, id * 4 + kOpen);
      for (std::uint32_t packet = 0; packet < kPackets; ++packet) {
        tick += 1 + random.below(kLongestGap);
        happens(tick, id * 4 + kPacket);
      }
      if (random.below(100) < 95) {
        happens(tick + 1 + random.below(kLongestGap), id * 4 + kClose);
      } else if (begins.empty()) {
        expired.add_both(id, tick + kIdleTimeout);
      }
    }
  };
  std::vector<std::uint32_t> counts(ticks + 1, 0);
  live([&](Tick tick, std::uint32_t) { ++counts[tick]; });
  begins.resize(ticks + 2, 0);
  for (Tick tick = 0; tick <= ticks; ++tick) begins[tick + 1] = begins[tick] + counts[tick];
  events.resize(begins.back());
  std::vector<std::uint32_t> at(begins);
  live([&](Tick tick, std::uint32_t event) { events[at[tick]++] = event; });
}

}  // namespace carillon::bench
