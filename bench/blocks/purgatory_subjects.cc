// SPDX-License-Identifier: Apache-2.0
//
// Operations that wait for a condition or a deadline: Purgatory beside one on a delay queue. An
// operation of the benchmark has one wait under the key of an item, where another waits already,
// and completes it by a check.

#include <array>
#include <atomic>
#include <cstdint>

#include "bench/blocks/workloads.h"
#include "bench/purgatory/delay_queue_purgatory.h"
#include "carillon/blocks/purgatory.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

// Waiting: watch(key, timeout, condition, counters), check(key).
template <class Waiting>
class PurgatorySubject {
 public:
  static constexpr std::string_view kBench = "Purgatory";
  static constexpr std::string_view kName = Waiting::kName;
  static constexpr bool kComesAndGoes = false;

  explicit PurgatorySubject(const Setup& /*setup*/) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    for (std::size_t i = first; i < first + count; ++i) {
      waiting_.watch(i, deadline - SteadyClock().now(), [] { return false; }, &expired_);
    }
  }
  bool use(std::size_t item, std::uint64_t /*number*/) {
    bool holds = false;
    waiting_.watch(item, kLife, [&holds] { return holds; }, &expired_);
    holds = true;
    return waiting_.check(item) == 1;
  }
  std::size_t gone() { return expired_.load(); }
  void help() {}

 private:
  std::atomic<std::size_t> expired_ = 0;
  Waiting waiting_;
};

class OnWheel {
 public:
  static constexpr std::string_view kName = "Purgatory";

  template <class Condition>
  void watch(std::uint64_t key, Span timeout, Condition condition,
             std::atomic<std::size_t>* expired) {
    purgatory_.watch({key}, timeout, condition, [expired](Outcome outcome) {
      if (outcome == Outcome::kExpired) expired->fetch_add(1, std::memory_order_relaxed);
    });
  }
  std::size_t check(std::uint64_t key) { return purgatory_.check(key); }

 private:
  Timer timer_;
  Purgatory<std::uint64_t> purgatory_{timer_};
};

class OnDelayQueue {
 public:
  static constexpr std::string_view kName = "delay queue";

  template <class Condition>
  void watch(std::uint64_t key, Span timeout, Condition condition,
             std::atomic<std::size_t>* expired) {
    purgatory_.watch(std::array{key}, SteadyClock().now() + timeout, condition,
                     [expired](bool over) {
                       if (over) expired->fetch_add(1, std::memory_order_relaxed);
                     });
  }
  std::size_t check(std::uint64_t key) { return purgatory_.check(key); }

 private:
  // A purge walks all keys: with a million of them not after each thousand that have ended.
  static constexpr std::size_t kPurgeInterval = 200'000;
  DelayQueuePurgatory purgatory_{kPurgeInterval};
};

}  // namespace

void add_purgatory_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<PurgatorySubject<OnWheel>>());
  entries.push_back(entry_of<PurgatorySubject<OnDelayQueue>>());
}

}  // namespace carillon::bench
