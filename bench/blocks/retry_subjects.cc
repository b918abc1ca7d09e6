// SPDX-License-Identifier: Apache-2.0
//
// Calls that have failed once and wait for the next attempt, which succeeds: retry() beside what is
// written by hand. The operation is a call that is given up while it waits, and another that fails.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "bench/blocks/waits.h"
#include "bench/blocks/workloads.h"
#include "carillon/blocks/retry.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

constexpr int kAttempts = 2;

using Attempted = std::function<bool(int number)>;
using Done = std::function<void(bool succeeded)>;

// Retries: begin(item, wait), which makes the first attempt; give_up(item), whether it waited.
template <class Retries>
class RetrySubject {
 public:
  static constexpr std::string_view kBench = "Retry";
  static constexpr std::string_view kName = Retries::kName;
  static constexpr std::size_t kMostItems = Retries::kMostItems;
  static constexpr bool kComesAndGoes = false;

  explicit RetrySubject(const Setup& setup) : retries_(setup.items) {}

  void add(std::size_t first, std::size_t count, Instant deadline) {
    for (std::size_t i = first; i < first + count; ++i) {
      retries_.begin(i, deadline - SteadyClock().now());
    }
  }
  bool use(std::size_t item, std::uint64_t /*number*/) {
    const bool waited = retries_.give_up(item);
    retries_.begin(item, kLife);
    return waited;
  }
  std::size_t gone() { return retries_.done(); }
  void help() {}

 private:
  Retries retries_;
};

class OurRetries {
 public:
  static constexpr std::string_view kName = "retry";
  static constexpr std::size_t kMostItems = SIZE_MAX;

  explicit OurRetries(std::size_t items) { handles_.reserve(items); }

  void begin(std::size_t item, Span wait) {
    if (item == handles_.size()) handles_.emplace_back();
    handles_[item] = retry(
        timer_,
        {.first = wait, .most = kForever, .jitter = Jitter::kNone, .max_attempts = kAttempts},
        [](Attempt attempt) { attempt.number() == 1 ? attempt.fail() : attempt.succeed(); },
        [this](const RetryOutcome& outcome) {
          done_.fetch_add(outcome.succeeded() ? 1 : 0, std::memory_order_relaxed);
        });
  }
  bool give_up(std::size_t item) { return handles_[item].cancel() == CancelResult::kCancelled; }
  [[nodiscard]] std::size_t done() const { return done_.load(); }

 private:
  std::atomic<std::size_t> done_ = 0;
  std::vector<RetryHandle> handles_;
  Timer timer_;
};

template <class Waits>
class HandmadeRetries {
 public:
  static constexpr std::string_view kName = Waits::kName;
  static constexpr std::size_t kMostItems = SIZE_MAX;

  explicit HandmadeRetries(std::size_t items) { calls_.reserve(items); }

  void begin(std::size_t item, Span wait) {
    if (item == calls_.size()) calls_.emplace_back();
    calls_[item] = std::make_shared<Call>();
    Call& call = *calls_[item];
    call.attempt = [](int number) { return number > 1; };
    call.done = [this](bool succeeded) {
      done_.fetch_add(succeeded ? 1 : 0, std::memory_order_relaxed);
    };
    call.wait = wait;
    run(calls_[item]);
  }
  bool give_up(std::size_t item) {
    Call& call = *calls_[item];
    const std::lock_guard lock(call.mutex);
    call.over = true;
    return waits_.cancel(call.handle);
  }
  [[nodiscard]] std::size_t done() const { return done_.load(); }

 private:
  struct Call {
    Attempted attempt;
    Done done;
    std::mutex mutex;  // of what follows: it is given up by another thread
    bool over = false;
    int attempts = 0;
    Span wait{};
    typename Waits::Handle handle{};
  };

  void run(const std::shared_ptr<Call>& call) {
    std::unique_lock lock(call->mutex);
    if (call->over) return;
    const int number = ++call->attempts;
    lock.unlock();
    const bool succeeded = call->attempt(number);
    lock.lock();
    if (call->over) return;
    call->over = succeeded || number == kAttempts;
    if (!call->over) {
      call->handle = waits_.after(call->wait, [this, call] { run(call); });
      call->wait *= 2;
      return;
    }
    lock.unlock();
    call->done(succeeded);
  }

  std::atomic<std::size_t> done_ = 0;
  Waits waits_;
  std::vector<std::shared_ptr<Call>> calls_;  // its handles go before what they wait in
};

class RetryingThreads {
 public:
  static constexpr std::string_view kName = "thread each";
  static constexpr std::size_t kMostItems = kMostThreads;

  explicit RetryingThreads(std::size_t items) { calls_.reserve(items); }

  void begin(std::size_t item, Span wait) {
    if (item == calls_.size()) calls_.emplace_back();
    calls_[item] = std::make_unique<SleepingThread>([this, wait](SleepingThread& self) {
      Span next = wait;
      for (int number = 1; number <= kAttempts; ++number, next *= 2) {
        const bool succeeded = number > 1;
        if (succeeded) {
          done_.fetch_add(1, std::memory_order_relaxed);
          return;
        }
        if (!self.sleep(next)) return;
      }
    });
  }
  bool give_up(std::size_t item) {
    calls_[item].reset();
    return true;  // none of those that are given up is due for an hour
  }
  [[nodiscard]] std::size_t done() const { return done_.load(); }

 private:
  std::atomic<std::size_t> done_ = 0;
  std::vector<std::unique_ptr<SleepingThread>> calls_;
};

}  // namespace

void add_retry_subjects(std::vector<SubjectEntry>& entries) {
  entries.push_back(entry_of<RetrySubject<OurRetries>>());
  entries.push_back(entry_of<RetrySubject<HandmadeRetries<HeapWaits>>>());
  entries.push_back(entry_of<RetrySubject<HandmadeRetries<AsioWaits>>>());
  entries.push_back(entry_of<RetrySubject<RetryingThreads>>());
}

}  // namespace carillon::bench
