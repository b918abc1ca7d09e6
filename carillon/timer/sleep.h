// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Coroutines that wait for a Timer: `co_await timer.sleep_for(250ms)`.
///
/// For coroutines of any type whose promise takes foreign awaitables. Boost.Asio's does not: there,
/// use sleep_for() and with_timeout() of asio.h, which also resume on the right executor. For those
/// that limit how long an operation is waited for: with_timeout.h.
///
/// Who ends a wait is decided once, by whoever comes first: the timer, the stop token, the end of
/// the operation, or the end of the coroutine that waits. The others find that it is over.

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string_view>
#include <utility>

#include "carillon/base/time.h"
#include "carillon/timer/timer.h"

namespace carillon {

/// How a sleep ended. Not to be ignored: a loop that does, on a Timer that is stopped, is a loop
/// without a pause.
enum class [[nodiscard]] SleepResult : std::uint8_t {
  /// Its time has passed.
  kElapsed,
  /// The stop token was triggered before; or when the sleep began.
  kStopRequested,
  /// The Timer was stopped or destroyed before, or takes no timers any more.
  kTimerStopped,
  /// The Timer would not take the timer: TimerOptions::max_pending, or a date for a Timer whose
  /// clock is not the calendar. There was no sleep.
  kRefused,
};

[[nodiscard]] constexpr std::string_view to_string(SleepResult result) noexcept {
  switch (result) {
    case SleepResult::kElapsed: return "elapsed";
    case SleepResult::kStopRequested: return "stop requested";
    case SleepResult::kTimerStopped: return "the timer is stopped";
    case SleepResult::kRefused: return "refused";
  }
  return "unknown";
}

namespace internal {

// What a coroutine that waits shares with those who may end that: it outlives the coroutine if one
// of them is late.
//
//     kOpen ──await_suspend──> kWaiting ──end()──> kOver: the coroutine is resumed
//       └──────end()──────────────────────────────> kOver: await_suspend says so, and it goes on
class WaitNode {
 public:
  // True for one caller, ever: it is the one that ends the wait.
  [[nodiscard]] bool claim() noexcept { return !claimed_.exchange(true); }
  // Resumes the coroutine, if it waits already. Nothing is used after it that the coroutine owns.
  void end() {
    if (phase_.exchange(kOver) == kWaiting) {
      waiter_.resume();
    }
  }
  // False: it is over.
  [[nodiscard]] bool wait() noexcept {
    std::uint8_t expected = kOpen;
    return phase_.compare_exchange_strong(expected, kWaiting);
  }
  // The coroutine is being destroyed: nobody resumes it any more.
  void abandon() noexcept { phase_.exchange(kOver); }
  void set_waiter(std::coroutine_handle<> waiter) noexcept { waiter_ = waiter; }

  void acquire() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  // True: that was the last one.
  [[nodiscard]] bool release() noexcept {
    return references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

 private:
  static constexpr std::uint8_t kOpen = 0;
  static constexpr std::uint8_t kWaiting = 1;
  static constexpr std::uint8_t kOver = 2;

  std::atomic<std::uint32_t> references_{0};
  std::atomic<std::uint8_t> phase_{kOpen};
  std::atomic<bool> claimed_{false};
  std::coroutine_handle<> waiter_;
};

// Shares a WaitNode. A pointer's size, so that it lies inside of a TimerCallback.
template <class Node>
class NodePtr {
 public:
  NodePtr() noexcept = default;
  explicit NodePtr(Node* node) noexcept : node_(node) { node_->acquire(); }
  NodePtr(const NodePtr& other) noexcept : node_(other.node_) {
    if (node_ != nullptr) {
      node_->acquire();
    }
  }
  NodePtr(NodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePtr& operator=(NodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePtr() {
    if (node_ != nullptr && node_->release()) {
      delete node_;
    }
  }

  Node* operator->() const noexcept { return node_; }
  Node& operator*() const noexcept { return *node_; }
  explicit operator bool() const noexcept { return node_ != nullptr; }

 private:
  Node* node_ = nullptr;
};

// The callback of a timer that a node waits for: tells it whether it was run, or destroyed unrun.
// Node has on_timer(bool elapsed), which does nothing if the wait is over.
template <class Node>
class NodeCallback {
 public:
  explicit NodeCallback(NodePtr<Node> node) noexcept : node_(std::move(node)) {}
  NodeCallback(NodeCallback&&) noexcept = default;
  NodeCallback& operator=(NodeCallback&&) = delete;
  ~NodeCallback() {
    if (node_) {
      node_->on_timer(false);
    }
  }
  void operator()() {
    const NodePtr<Node> node = std::move(node_);
    node->on_timer(true);
  }

 private:
  NodePtr<Node> node_;
};

[[nodiscard]] constexpr SleepResult sleep_result_of(Refusal refusal) noexcept {
  return refusal == Refusal::kStopped ? SleepResult::kTimerStopped : SleepResult::kRefused;
}

// When a wait ends: a span from when it begins, or a time.
struct WaitLimit {
  enum class Kind : std::uint8_t { kAfter, kAt, kSteady, kDate };

  Kind kind = Kind::kAfter;
  Span::rep nanos = 0;

  [[nodiscard]] TimerHandle schedule(Timer& timer, TimerCallback callback) const {
    switch (kind) {
      case Kind::kAfter: return timer.after(Span(nanos), std::move(callback));
      case Kind::kAt: return timer.at(Instant(Span(nanos)), std::move(callback));
      case Kind::kSteady:
        return timer.at(std::chrono::steady_clock::time_point(Span(nanos)), std::move(callback));
      case Kind::kDate: break;
    }
    return timer.at(WallTime(Span(nanos)), std::move(callback));
  }
};

// The point as the Timer has it; never before it.
template <class Timeline, class Duration>
[[nodiscard]] WaitLimit wait_limit_at(std::chrono::time_point<Timeline, Duration> at) noexcept {
  constexpr bool kDate = std::is_same_v<Timeline, std::chrono::system_clock>;
  static_assert(kDate || std::is_same_v<Timeline, MonotonicTimeline> ||
                    std::is_same_v<Timeline, std::chrono::steady_clock>,
                "an Instant, a time of steady_clock, or of system_clock");
  constexpr bool kSteady = std::is_same_v<Timeline, std::chrono::steady_clock>;
  constexpr WaitLimit::Kind kKind = kDate     ? WaitLimit::Kind::kDate
                                    : kSteady ? WaitLimit::Kind::kSteady
                                              : WaitLimit::Kind::kAt;
  return {kKind, to_span(at.time_since_epoch()).count()};
}

class SleepNode : public WaitNode {
 public:
  SleepResult result = SleepResult::kElapsed;
  TimerHandle timer;

  void on_timer(bool elapsed) {
    finish(elapsed ? SleepResult::kElapsed : SleepResult::kTimerStopped);
  }
  void finish(SleepResult how) {
    if (claim()) {
      result = how;
      end();
    }
  }
  void listen(std::stop_token token) { stop_.emplace(std::move(token), OnStop{this}); }
  // Then the token does not call any more. In its call, returns at once; beside it, waits.
  void ignore_stop() noexcept { stop_.reset(); }

 private:
  struct OnStop {
    SleepNode* node;
    void operator()() const {
      // To be resumed may be to be destroyed.
      const NodePtr<SleepNode> held(node);
      node->finish(SleepResult::kStopRequested);
    }
  };
  std::optional<std::stop_callback<OnStop>> stop_;
};

}  // namespace internal

/// What Timer::sleep_for() and sleep_until() answer: to be awaited, once.
///
///     const SleepResult slept = co_await timer.sleep_for(250ms, token);
///     if (slept != SleepResult::kElapsed) co_return;
///
/// (In two lines for g++ 12: where a coroutine answers a value, `if (co_await x) co_return y;` is
/// miscompiled, whatever x is.)
///
/// Time:      as Timer::after() and at(); a delay counts from the co_await. Never early; a delay of
///            zero or less ends at the next tick. A sleep whose token is triggered already does not
///            suspend.
/// Threads:   the coroutine is resumed on the Timer's executor; or by request_stop(), at once, on
///            the thread that calls it; or, when the Timer is stopped, on the thread that destroys
///            what Timer::stop() returns, or the Timer. (Who runs what stop() returned ends the
///            sleep as if its time had passed.)
/// Lifetime:  a coroutine that is suspended here may be destroyed: the sleep is cancelled. Not
///            while another thread may be about to resume it; so on the executor, if that is one
///            thread or a strand, or after stop().
/// Errors:    std::bad_alloc from co_await.
/// Cost:      that of a timer, and one allocation.
class [[nodiscard]] Sleep {
 public:
  Sleep(Timer& timer, internal::WaitLimit limit, std::stop_token token = {}) noexcept
      : timer_(&timer), limit_(limit), token_(std::move(token)) {}
  /// Pre: not yet awaited.
  Sleep(Sleep&&) noexcept = default;
  Sleep& operator=(Sleep&&) = delete;
  ~Sleep() {
    if (node_) {
      node_->abandon();
      clean_up();
    }
  }

  [[nodiscard]] bool await_ready() const noexcept { return token_.stop_requested(); }

  bool await_suspend(std::coroutine_handle<> waiter) {
    using Node = internal::SleepNode;
    node_ = internal::NodePtr<Node>(new Node);
    node_->set_waiter(waiter);
    // Until wait(), nobody resumes the coroutine, so this object stays.
    const TimerHandle timer = limit_.schedule(*timer_, internal::NodeCallback<Node>(node_));
    node_->timer = timer;
    if (!timer) {
      node_->result = internal::sleep_result_of(timer.refusal());
      return false;
    }
    if (token_.stop_possible()) {
      node_->listen(std::move(token_));
    }
    return node_->wait();
  }

  SleepResult await_resume() {
    if (!node_) {
      return SleepResult::kStopRequested;
    }
    const SleepResult result = node_->result;
    clean_up();
    return result;
  }

 private:
  void clean_up() noexcept {
    const internal::NodePtr<internal::SleepNode> node = std::move(node_);
    node->ignore_stop();
    node->timer.cancel();
  }

  Timer* timer_;
  internal::WaitLimit limit_;
  std::stop_token token_;
  internal::NodePtr<internal::SleepNode> node_;
};

template <class Rep, class Period, class... StopToken>
Sleep Timer::sleep_for(std::chrono::duration<Rep, Period> delay, StopToken... token) {
  return {*this,
          {internal::WaitLimit::Kind::kAfter, internal::to_span(delay).count()},
          std::move(token)...};
}

template <class Timeline, class Duration, class... StopToken>
Sleep Timer::sleep_until(std::chrono::time_point<Timeline, Duration> deadline, StopToken... token) {
  return {*this, internal::wait_limit_at(deadline), std::move(token)...};
}

}  // namespace carillon
