// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/core.h"

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>

#include "carillon/timer/internal/fast_clock.h"

namespace carillon::internal {
namespace {

// Cores that no Timer uses. Never destroyed: a handle may be asked after main() has returned.
struct Registry {
  std::mutex mutex;
  Core* free = nullptr;
  std::uint32_t lives = 0;
};
Registry& registry() {
  static Registry* const kRegistry = new Registry;
  return *kRegistry;
}

std::size_t shards_for(unsigned wanted) {
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  const unsigned count = wanted != 0 ? wanted : 2 * threads;
  return std::bit_ceil(std::min(count, TimerOptions::kMaxShards));
}

// Of equal deadlines, those that stand first come first.
void sort_by_deadline(std::vector<UnfiredTimer>& timers) {
  std::vector<std::pair<Instant, std::size_t>> order;
  order.reserve(timers.size());
  for (std::size_t i = 0; i < timers.size(); ++i) {
    order.emplace_back(timers[i].deadline, i);
  }
  std::sort(order.begin(), order.end());
  std::vector<UnfiredTimer> sorted;
  sorted.reserve(timers.size());
  for (const auto& [deadline, i] : order) {
    sorted.push_back(std::move(timers[i]));
  }
  timers = std::move(sorted);
}

}  // namespace

Core::Core() noexcept {
  for (Shard& shard : shards) {
    shard.core = this;
  }
}

Core& Core::open(TimerOptions&& options) {
  constexpr Span kFinest = std::chrono::microseconds(10);
  constexpr Span kCoarsest = std::chrono::hours(1);
  auto life = std::make_unique<TimerLife>();
  life->executor = options.executor;
  if (!life->executor && options.custom_clock != nullptr) {
    life->executor = inline_executor();
  }
  options.batch = std::max<std::size_t>(options.batch, 1);
  options.tick = std::clamp(options.tick, kFinest, kCoarsest);
  life->options = std::move(options);

  Core* core = nullptr;
  {
    Registry& all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    core = all.free;
    if (core != nullptr) {
      all.free = core->next_free;
    } else {
      core = new Core;
    }
    // Zero is no life. Four billion Timers later a handle of the first may name a timer.
    all.lives += all.lives + 1 == 0 ? 2 : 1;
    core->life_number = all.lives;
  }
  core->clock_kind = life->options.clock;
  core->custom_clock = life->options.custom_clock;
  core->tick_ns = static_cast<std::uint64_t>(life->options.tick.count());
  core->by_tick = Reciprocal(core->tick_ns);
  core->shard_count = shards_for(life->options.shards);
  core->life = std::move(life);
  core->wake_before.store(kAlways);
  core->quit.store(false);
  core->stage.store(kOpen);
  core->wakeups.store(0);
  core->executor_full.store(0);
  core->exception_told.store(false);
  core->holds.store(static_cast<std::uint32_t>(core->shard_count) + 1);
  for (std::size_t i = 0; i < core->shard_count; ++i) {
    Shard& shard = core->shards[i];
    const SpinLockHold hold(shard.mutex);
    shard.life = core->life_number;
    shard.open = true;
    shard.scheduled = shard.cancelled = shard.rejected = shard.dropped = 0;
    shard.exceptions.store(0);
    shard.flight.store(Shard::kOneHeld);
  }
  return *core;
}

Instant Core::now() const noexcept {
  if (custom_clock != nullptr) {
    return custom_clock->now();
  }
  return clock_kind == ClockKind::kSteady ? SteadyClock().now() : BootClock().now();
}

Instant Core::now_or_later() const noexcept {
  if (custom_clock == nullptr && clock_kind == ClockKind::kSteady) [[likely]] {
    return steady_now_or_later();
  }
  return now();
}

Shard& Core::home_shard() noexcept { return shards[thread_number() & (shard_count - 1)]; }

std::vector<UnfiredTimer> Core::stop() {
  std::vector<UnfiredTimer> unfired;
  std::uint32_t expected = kOpen;
  if (!stage.compare_exchange_strong(expected, kStopping)) {
    // Somebody stops it, and may wait for the callback that this is in.
    while (!in_callback() && stage.load() == kStopping) {
      futex_wait(stage, kStopping);
    }
    return unfired;
  }
  // Closed before the driver's thread ends, so that what it has in hand is returned, not dropped.
  for (std::size_t i = 0; i < shard_count; ++i) {
    shards[i].close(unfired);
  }
  sort_by_deadline(unfired);
  quit.store(true);
  wake();
  std::thread driver;
  {
    const std::lock_guard<std::mutex> lock(life->mutex);
    life->stopped = true;
    driver = std::move(life->driver);
  }
  if (driver.get_id() == std::this_thread::get_id()) {
    driver.detach();
  } else if (driver.joinable()) {
    driver.join();
  }
  if (!in_callback()) {
    await_callbacks();
  }
  stage.store(kStopped);
  futex_wake_all(stage);
  return unfired;
}

void Core::await_callbacks() noexcept {
  awaiting.fetch_add(1);
  for (;;) {
    const std::uint32_t seen = ended_epoch.load();
    const bool begun = std::any_of(shards.begin(), shards.begin() + shard_count,
                                   [](Shard& shard) { return shard.has_begun(); });
    if (!begun) {
      break;
    }
    futex_wait(ended_epoch, seen);
  }
  awaiting.fetch_sub(1);
}

void Core::release() noexcept {
  // Its threads are joined here, at the end; unless the driver still needs it.
  std::shared_ptr<Executor> executor;
  if (life->driver_id != std::this_thread::get_id()) {
    executor = std::move(life->executor);
  }
  for (std::size_t i = 0; i < shard_count; ++i) {
    Shard& shard = shards[i];
    {
      const SpinLockHold hold(shard.mutex);
      shard.life = 0;
    }
    let_go(shard);
  }
  drop_hold();
}

void Core::drop_hold() noexcept {
  if (holds.fetch_sub(1) != 1) {
    return;
  }
  std::unique_ptr<TimerLife> over = std::move(life);
  for (std::size_t i = 0; i < shard_count; ++i) {
    Shard& shard = shards[i];
    const SpinLockHold hold(shard.mutex);
    shard.finished.store(nullptr);
    shard.firings.clear();
  }
  {
    Registry& all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    next_free = all.free;
    all.free = this;
  }
}

}  // namespace carillon::internal
