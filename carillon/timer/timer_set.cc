// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer_set.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "carillon/base/check.h"

namespace carillon {
namespace {

std::size_t shard_of_processor(std::size_t timers) {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<std::size_t>(cpu) % timers;
}

void add(TimerHistogram& sum, const TimerHistogram& part) {
  for (std::size_t i = 0; i < part.buckets.size(); ++i) {
    sum.buckets[i] += part.buckets[i];
  }
  sum.count += part.count;
  sum.sum += part.sum;
}

void add(TimerStats& sum, const TimerStats& part) {
  sum.pending += part.pending;
  sum.scheduled += part.scheduled;
  sum.cancelled += part.cancelled;
  sum.fired += part.fired;
  sum.rejected += part.rejected;
  sum.exceptions += part.exceptions;
  sum.dropped += part.dropped;
  sum.slow += part.slow;
  sum.missed += part.missed;
  sum.wakeups += part.wakeups;
  sum.executor_full += part.executor_full;
  sum.memory_bytes += part.memory_bytes;
  add(sum.lateness, part.lateness);
  add(sum.callback_time, part.callback_time);
  add(sum.driver_work, part.driver_work);
}

void append(std::vector<UnfiredTimer>& all, std::vector<UnfiredTimer>&& some) {
  all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
}

void sort_by_deadline(std::vector<UnfiredTimer>& timers) {
  std::stable_sort(timers.begin(), timers.end(), [](const UnfiredTimer& a, const UnfiredTimer& b) {
    return a.deadline < b.deadline;
  });
}

// The finalizer of SplitMix64: keys that follow each other go to different Timers.
std::uint64_t mixed(std::uint64_t key) {
  key = (key ^ key >> 30) * 0xbf58476d1ce4e5b9U;
  key = (key ^ key >> 27) * 0x94d049bb133111ebU;
  return key ^ key >> 31;
}

}  // namespace

TimerSet::TimerSet(TimerSetOptions options)
    : shard_(options.shard ? std::move(options.shard) : &shard_of_processor) {
  const unsigned hardware = std::max(1U, std::thread::hardware_concurrency());
  const unsigned count = options.timers != 0 ? options.timers : hardware;
  TimerOptions each = std::move(options.timer);
  if (!each.executor && each.custom_clock == nullptr) {
    ThreadPoolOptions pool = each.pool;
    pool.threads = std::max(pool.threads, count);
    each.executor = std::make_shared<ThreadPoolExecutor>(std::move(pool));
  }
  if (each.shards == 0) {
    each.shards = 2;
  }
  const std::string name = each.thread_name;
  const int first_cpu = each.cpu;
  timers_.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    // The end is what is kept of a name that is too long, so that they can be told apart.
    const std::string number = std::to_string(i);
    each.thread_name = name.substr(0, 15 - std::min<std::size_t>(number.size(), 15)) + number;
    each.cpu =
        first_cpu < 0 ? -1 : static_cast<int>((static_cast<unsigned>(first_cpu) + i) % hardware);
    timers_.push_back(std::make_unique<Timer>(each));
  }
}

Timer& TimerSet::local() noexcept {
  const std::size_t number = shard_(timers_.size());
  CARILLON_CHECK(number < timers_.size(), "shard ", number, " of ", timers_.size());
  return *timers_[number];
}

KeyedTimer TimerSet::keyed(std::uint64_t key) {
  return timers_[mixed(key) % timers_.size()]->keyed(key);
}
KeyedTimer TimerSet::keyed(std::string_view key) {
  return timers_[mixed(std::hash<std::string_view>{}(key)) % timers_.size()]->keyed(key);
}

std::size_t TimerSet::pending() const noexcept {
  std::size_t sum = 0;
  for (const auto& timer : timers_) {
    sum += timer->pending();
  }
  return sum;
}

TimerStats TimerSet::stats() const {
  TimerStats sum;
  for (const auto& timer : timers_) {
    add(sum, timer->stats());
  }
  return sum;
}

void TimerSet::pause() noexcept {
  for (const auto& timer : timers_) {
    timer->pause();
  }
}

void TimerSet::resume() noexcept {
  for (const auto& timer : timers_) {
    timer->resume();
  }
}

std::vector<UnfiredTimer> TimerSet::stop() {
  std::vector<UnfiredTimer> unfired;
  for (const auto& timer : timers_) {
    append(unfired, timer->stop());
  }
  sort_by_deadline(unfired);
  return unfired;
}

std::vector<UnfiredTimer> TimerSet::drain(Span at_most) {
  // Each by a thread of its own, since the time is that of all, and a Timer refuses only when its
  // drain begins.
  std::vector<std::vector<UnfiredTimer>> parts(timers_.size());
  std::vector<std::thread> threads;
  threads.reserve(timers_.size());
  for (std::size_t i = 1; i < timers_.size(); ++i) {
    threads.emplace_back([this, &parts, i, at_most] { parts[i] = timers_[i]->drain(at_most); });
  }
  parts[0] = timers_[0]->drain(at_most);
  std::vector<UnfiredTimer> unfired;
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::vector<UnfiredTimer>& part : parts) {
    append(unfired, std::move(part));
  }
  sort_by_deadline(unfired);
  return unfired;
}

}  // namespace carillon
