// SPDX-License-Identifier: Apache-2.0
#include "bench/timer/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "bench/common/interrupt.h"
#include "bench/common/process.h"
#include "carillon/base/random.h"

namespace carillon::bench {
Schedule::Schedule(std::size_t timers, double seconds) : records_(timers), left_(timers) {
  Random random(5);
  const auto span = static_cast<std::uint64_t>(seconds * 1e9);
  offsets_.reserve(timers);
  for (std::size_t i = 0; i < timers; ++i) {
    offsets_.push_back(static_cast<std::int64_t>(random.below(span)));
  }
}

std::int64_t Schedule::plan(std::size_t index, std::int64_t begin, std::int64_t now) {
  records_[index].due = std::max(begin + offsets_[index], now);
  return records_[index].due - now;
}

void Schedule::fire(std::uint32_t index) {
  Record& record = records_[index];
  record.fired_at.store(now_ns(), std::memory_order_relaxed);
  record.times.fetch_add(1, std::memory_order_relaxed);
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    const std::lock_guard lock(mutex_);
    all_fired_.notify_one();
  }
}

void Schedule::await(double seconds) {
  std::unique_lock lock(mutex_);
  const auto none_left = [this] { return left_.load(std::memory_order_acquire) == 0; };
  if (!all_fired_.wait_for(lock, std::chrono::duration<double>(seconds), none_left)) {
    throw BenchError(fmt::format("{} of {} timers have not fired", left_.load(), size()));
  }
}

void Schedule::verify() const {
  for (const Record& record : records_) {
    const std::uint32_t times = record.times.load(std::memory_order_relaxed);
    if (times != 1) throw BenchError(fmt::format("a timer fired {} times", times));
  }
}

std::vector<std::int64_t> Schedule::lateness() const {
  std::vector<std::int64_t> late;
  late.reserve(records_.size());
  for (const Record& record : records_) {
    late.push_back(record.fired_at.load(std::memory_order_relaxed) - record.due);
  }
  std::sort(late.begin(), late.end());
  return late;
}

}  // namespace carillon::bench
