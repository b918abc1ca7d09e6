// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <new>
#include <span>
#include <string>

#include "carillon/timer/internal/core.h"

namespace carillon::internal {

void Core::wake() noexcept {
  epoch.fetch_add(1);
  // Sequentially consistent, as in sleep_until(): either it sees that the epoch has moved, or this
  // sees that it sleeps.
  if (asleep.load() != 0) {
    futex_wake_all(epoch);
  }
}

// Others whose deadline is later need not wake the driver then: it will look at all of them.
void Core::wake_for(Tick deadline) noexcept {
  Tick before = wake_before.load(std::memory_order_acquire);
  do {
    if (deadline >= before) {
      return;
    }
  } while (!wake_before.compare_exchange_weak(before, deadline, std::memory_order_acq_rel));
  wake();
}

void Core::ensure_started() {
  if (custom_clock != nullptr) {
    return;
  }
  const std::lock_guard<std::mutex> lock(life->mutex);
  if (life->stopped || life->driver.joinable()) {
    return;
  }
  if (!life->executor) {
    life->executor = std::make_shared<ThreadPoolExecutor>(life->options.pool);
  }
  holds.fetch_add(1);
  try {
    life->driver = std::thread([this] { drive(); });
  } catch (...) {
    holds.fetch_sub(1);
    throw;
  }
}

void Core::drive() noexcept {
  life->driver_id = std::this_thread::get_id();
  constexpr std::size_t kLongestName = 15;
  pthread_setname_np(pthread_self(), life->options.thread_name.substr(0, kLongestName).c_str());
  if (const int cpu = life->options.cpu; cpu >= 0 && cpu < CPU_SETSIZE) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
  }
  // By so much the kernel may let the thread oversleep; its default is 50 us.
  prctl(PR_SET_TIMERSLACK, std::clamp<std::uint64_t>(tick_ns / 20, 1, 50'000));

  // The earliest deadline that the driver was woken for. It sleeps no longer than until then, even if
  // that timer has been cancelled meanwhile: otherwise a program that schedules and cancels would
  // wake it each time, and now for one of these deadlines it wakes once for nothing.
  Tick promised = kAlways;
  Tick published = kAlways;
  const auto publish = [&](Tick value) {
    // What stood there is lower if a producer has had the driver woken.
    if (const Tick before = wake_before.exchange(value); before != published) {
      promised = std::min(promised, before);
    }
    published = value;
  };
  while (!quit.load(std::memory_order_acquire)) {
    const std::uint32_t epoch_seen = epoch.load();
    publish(kAlways);
    Tick next = kNever;
    Tick until = kLastTick;
    const Tick present = reached(now());
    if (promised <= present) {
      promised = kAlways;
    }
    try {
      next = turn(present);
      if (next != kNever) {
        until = next = std::min(next, promised);
      }
    } catch (const std::bad_alloc&) {
      until = present + 1;  // Nothing is lost; perhaps there is memory then.
    }
    publish(next);
    sleep_until(until, epoch_seen);
  }
  life->batch.clear();
  drop_hold();
}

void Core::poll(Instant now) {
  life->driver_id = std::this_thread::get_id();
  holds.fetch_add(1);
  wake_before.store(kAlways);
  Tick next = kAlways;
  try {
    next = turn(reached(now));
  } catch (...) {
    drop_hold();
    throw;
  }
  wake_before.store(next);
  if (quit.load()) {
    life->batch.clear();
  }
  life->driver_id = std::thread::id();
  drop_hold();
}

Tick Core::turn(Tick now) {
  TimerLife& mine = *life;
  if (!hand_over()) {
    return kNever;
  }
  for (std::size_t i = 0; i < shard_count; ++i) {
    mine.next[i] = shards[i].next_deadline(now);
  }
  for (;;) {
    // A tick at a time, so that what is due is handed over in order, whatever shard it is in.
    Tick first = kLastTick;
    for (std::size_t i = 0; i < shard_count; ++i) {
      first = std::min(first, mine.next[i].value_or(kLastTick));
    }
    if (first > now || quit.load(std::memory_order_acquire)) {
      return first;
    }
    for (std::size_t i = 0; i < shard_count; ++i) {
      if (mine.next[i] != first || mine.batch.size() >= mine.options.batch) {
        continue;
      }
      if (!shards[i].take_due(first, mine.options.batch - mine.batch.size(), mine.batch)) {
        mine.next[i] = shards[i].next_deadline(now);
      }
    }
    if (!hand_over()) {
      return kNever;
    }
  }
}

// Hands over the batch; false if the executor has no room for all of it.
bool Core::hand_over() {
  TimerLife& mine = *life;
  while (mine.handed_over < mine.batch.size()) {
    const std::span<Firing> rest = std::span(mine.batch).subspan(mine.handed_over);
    const std::size_t taken = mine.executor->try_execute(rest, *this);
    mine.handed_over += taken;
    if (taken < rest.size()) {
      executor_full.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  }
  mine.batch.clear();
  mine.handed_over = 0;
  return true;
}

void Core::sleep_until(Tick tick, std::uint32_t epoch_seen) noexcept {
  asleep.store(1);
  if (epoch.load() == epoch_seen) {
    futex_wait(epoch, epoch_seen, tick == kLastTick ? Instant::max() : begin_of(tick));
    wakeups.fetch_add(1, std::memory_order_relaxed);
  }
  asleep.store(0, std::memory_order_relaxed);
}

}  // namespace carillon::internal
