// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/internal/core.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "carillon/timer/internal/fast_clock.h"
#include "carillon/timer/manual_driver.h"

namespace carillon::internal {
namespace {

// Cores that no Timer uses. Never destroyed: a handle may be asked after main() has returned.
struct Registry {
  std::mutex mutex;
  Core* free = nullptr;
  Core* all = nullptr;
  std::uint32_t lives = 0;
  unsigned open = 0;
  bool told_many = false;
};
Registry& registry();

// A fork has only the thread that called it in the child. What the others held stays held: so in
// the child every Timer is given up, without looking at what is in it.
void before_fork() {
  registry().mutex.lock();
  numbers_mutex.lock();
}
void after_fork_in_parent() {
  numbers_mutex.unlock();
  registry().mutex.unlock();
}
void after_fork_in_child() {
  for (Core* core = registry().all; core != nullptr; core = core->next_of_all) {
    core->abandon();
  }
  registry().open = 0;
  after_fork_in_parent();
}

Registry& registry() {
  static Registry* const kRegistry = [] {
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
    return new Registry;
  }();
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
  const TimerOptions& chosen = life->options;

  Core* core = nullptr;
  bool many = false;
  {
    Registry& all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    core = all.free;
    if (core != nullptr) {
      all.free = core->next_free;
    } else {
      core = new Core;
      core->next_of_all = std::exchange(all.all, core);
    }
    // Zero is no life. Four billion Timers later a handle of the first may name a timer.
    all.lives += all.lives + 1 == 0 ? 2 : 1;
    core->life_number = all.lives;
    if (++all.open == chosen.many_timers && !all.told_many) {
      all.told_many = many = true;
    }
  }
  core->clock_kind = chosen.clock;
  core->custom_clock = chosen.custom_clock;
  core->custom_calendar = chosen.custom_calendar;
  core->manual = chosen.manual;
  core->tick_ns = static_cast<std::uint64_t>(chosen.tick.count());
  core->by_tick = Reciprocal(core->tick_ns);
  core->shard_count = shards_for(chosen.shards);
  core->all_shards = core->shard_count + (chosen.clock == ClockKind::kWall ? 1 : 0);
  core->limited = chosen.max_pending != 0;
  core->credit.store(chosen.max_pending);
  core->life = std::move(life);
  core->wake_before.store(kAlways);
  core->quit.store(false);
  core->paused.store(false);
  core->no_room.store(false);
  core->fd.store(-1);
  core->stage.store(kOpen);
  core->wakeups.store(0);
  core->executor_full.store(0);
  core->holds.store(static_cast<std::uint32_t>(core->all_shards) + 1);
  for (std::size_t i = 0; i < core->all_shards; ++i) {
    Shard& shard = core->shards[i];
    const SpinLockHold hold(shard.mutex);
    shard.life = core->life_number;
    shard.open = true;
    shard.scheduled = shard.cancelled = shard.rejected = shard.dropped = shard.missed = 0;
    shard.credit = 0;
    shard.exceptions.store(0);
    shard.slow.store(0);
    shard.flight.store(Shard::kOneHeld);
  }
  if (core->manual != nullptr) {
    core->manual->add(*core);
  }
  if (many) {
    tell(core->life->options, "the process has " + std::to_string(core->life->options.many_timers) +
                                  " Timers: one is enough for millions of timers");
  }
  return *core;
}

void Core::abandon() noexcept {
  // The descriptors are shared with the parent, whose timers are not to be set from here: also
  // those that a core without a Timer keeps for the next one.
  fd.store(-1);
  kept_fds = {-1, -1};
  if (!life) {
    return;
  }
  quit.store(true);
  stage.store(kAbandoned);
  wake_before.store(kNever);
  for (Shard& shard : shards) {
    shard.mutex.reset();
    const SpinLockHold hold(shard.mutex);
    shard.life = 0;
    shard.open = false;
    shard.flight.store(0);
    // What was half done when the process was forked cannot be destroyed.
    new (&shard.wheel) decltype(shard.wheel);
    new (&shard.firings) FiringTable;
    new (&shard.parked) decltype(shard.parked);
    new (&shard.periodics) decltype(shard.periodics);
    new (&shard.free_periodics) decltype(shard.free_periodics);
    new (&shard.keys) decltype(shard.keys);
  }
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

WallTime Core::wall_now() const noexcept {
  return custom_calendar != nullptr ? custom_calendar->now() : SystemCalendar().now();
}

Instant Core::instant_of(WallTime at) const noexcept {
  // The clock is read after the calendar, so that what lies between does not make it early.
  const Span::rep wall = wall_now().time_since_epoch().count();
  Span::rep wait = 0;
  if (__builtin_sub_overflow(at.time_since_epoch().count(), wall, &wait)) {
    return at.time_since_epoch().count() > 0 ? Instant::max() : Instant{};
  }
  return saturating_add(now(), Span(wait));
}

Instant Core::instant_of_steady(Instant at) const noexcept {
  const bool boot_clock =
      clock_kind != ClockKind::kSteady &&
      (custom_clock == nullptr || dynamic_cast<const BootClock*>(custom_clock) != nullptr);
  if (!boot_clock || at == Instant::max()) {
    return at;
  }
  // The Timer's clock is read last, as above.
  const Span::rep steady = SteadyClock().now().time_since_epoch().count();
  Span::rep wait = 0;
  if (__builtin_sub_overflow(at.time_since_epoch().count(), steady, &wait)) {
    return Instant{};
  }
  return saturating_add(now(), Span(wait));
}

std::size_t Core::take_credit() noexcept {
  constexpr std::size_t kLump = 64;
  std::size_t left = credit.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  do {
    taken = std::min(kLump, left / (2 * all_shards) + 1);
    taken = std::min(taken, left);
  } while (taken != 0 && !credit.compare_exchange_weak(left, left - taken));
  return taken;
}

Shard& Core::home_shard() noexcept { return shards[thread_number() & (shard_count - 1)]; }

std::vector<UnfiredTimer> Core::stop() {
  std::vector<UnfiredTimer> unfired;
  std::uint32_t expected = kOpen;
  if (!stage.compare_exchange_strong(expected, kStopping)) {
    // Somebody stops it, or has; and may wait for the callback that this is in.
    if (in_callback()) {
      return unfired;
    }
    while (stage.load() == kStopping) {
      futex_wait(stage, kStopping);
    }
    // Who stopped it may have been in a callback, and have waited for none.
    if (stage.load() == kStopped) {
      await_callbacks();
    }
    return unfired;
  }
  if (manual != nullptr) {
    manual->remove(*this);
  }
  // Closed before the driver's thread ends, so that what it has in hand is returned, not dropped.
  for (std::size_t i = 0; i < all_shards; ++i) {
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
    life->driver_detached.store(true);
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
    const bool begun = std::any_of(shards.begin(), shards.begin() + all_shards,
                                   [](Shard& shard) { return shard.has_begun(); });
    if (!begun) {
      break;
    }
    futex_wait(ended_epoch, seen);
  }
  awaiting.fetch_sub(1);
}

void Core::await_idle() noexcept {
  awaiting.fetch_add(1);
  for (;;) {
    const std::uint32_t seen = ended_epoch.load();
    // What the executor had no room for is queued too.
    std::size_t queued = 0;
    bool begun = false;
    for (std::size_t i = 0; i < all_shards; ++i) {
      queued += static_cast<std::uint32_t>(shards[i].flight.load());
      begun |= shards[i].has_begun();
    }
    if (!begun && (!life || queued <= life->batch.size() - life->handed_over)) {
      break;
    }
    // A callback that is cancelled or dropped while it is queued tells nobody.
    futex_wait(ended_epoch, seen,
               saturating_add(SteadyClock().now(), std::chrono::milliseconds(10)));
  }
  awaiting.fetch_sub(1);
}

void Core::await_room() noexcept {
  asleep.store(1);
  for (;;) {
    const std::uint32_t seen = epoch.load();
    if (!no_room.load() || paused.load() || quit.load()) {
      break;
    }
    futex_wait(epoch, seen);
  }
  asleep.store(0);
}

std::vector<UnfiredTimer> Core::drain(Span at_most) {
  if (!in_callback() && stage.load() == kOpen) {
    const Instant until = saturating_add(SteadyClock().now(), at_most);
    awaiting.fetch_add(1);
    for (std::size_t i = 0; i < all_shards; ++i) {
      shards[i].refuse_all();
    }
    for (;;) {
      const std::uint32_t seen = ended_epoch.load();
      const bool busy = std::any_of(shards.begin(), shards.begin() + all_shards,
                                    [](Shard& shard) { return shard.unfinished() != 0; });
      const Instant present = SteadyClock().now();
      if (!busy || present >= until || stage.load() != kOpen) {
        break;
      }
      // A timer that is cancelled tells nobody.
      futex_wait(ended_epoch, seen,
                 std::min(until, saturating_add(present, std::chrono::milliseconds(10))));
    }
    awaiting.fetch_sub(1);
  }
  return stop();
}

void Core::release() noexcept {
  if (stage.load() == kAbandoned) {
    return;
  }
  // Its threads are joined here, at the end; unless the driver may still be in it.
  std::shared_ptr<Executor> executor;
  if (life->driver_id != std::this_thread::get_id() && !life->driver_detached.load()) {
    executor = std::move(life->executor);
  }
  {
    Registry& all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    --all.open;
  }
  // Before the first hold is let go: with the last one, the memory may be another Timer's.
  const std::size_t count = all_shards;
  for (std::size_t i = 0; i < count; ++i) {
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
  const std::unique_ptr<TimerLife> over = std::move(life);
  for (std::size_t i = 0; i < all_shards; ++i) {
    shards[i].clear();
  }
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  next_free = all.free;
  all.free = this;
}

}  // namespace carillon::internal
