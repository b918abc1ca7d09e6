// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// carillon::asio::wheel_timer: Asio's steady_timer, on a Timer. See asio.h for which Asio.
///
///     boost::asio::steady_timer idle(io);       carillon::asio::wheel_timer idle(io);
///     idle.expires_after(30s);                  idle.expires_after(30s);
///     idle.async_wait(...);                     idle.async_wait(...);
///
/// Asio keeps the timers of a context in one binary heap under one mutex: to set and to cancel one
/// costs O(log n), with a cache miss for each level. This is O(1), under a lock of its own.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "carillon/timer/internal/asio_config.h"
#include "carillon/timer/internal/asio_waits.h"
#include "carillon/timer/timer.h"

namespace carillon::asio {
inline namespace CARILLON_ASIO_NAMESPACE {

/// A timer that completes waits on it when it expires; to be used as Asio's basic_waitable_timer.
///
/// Any number of waits may be pending; each is completed once: with no error when the timer
/// expires, or with `error::operation_aborted` when it is cancelled first. A wait on a timer that
/// has expired completes at once, as by post. Handlers are called as by post on their associated
/// executor, which is that of the timer unless they have another; and not before.
///
/// What differs from steady_timer:
/// - Deadlines are rounded up to the tick of the Timer, 1 ms unless it has another.
/// - It may be given a Timer, which many contexts may share. Otherwise the context makes one with
///   its first wheel_timer; that has a thread of its own, which only posts.
/// - When the Timer is stopped, waits complete with `error::operation_aborted`; so do those that
///   begin later. If it will not take more (TimerOptions::max_pending), a wait completes with
///   `error::no_buffer_space`.
///
/// Time:     of the Timer's clock. expires_at() takes times of steady_clock, so the Timer must have
///           ClockKind::kSteady, or a manual clock, whose times are taken to be such.
/// Threads:  as Asio's: distinct objects safe, one object unsafe. A cancellation slot may be
///           triggered from any thread.
/// Lifetime: may be moved. The destructor cancels what waits. As long as a wait is pending, the
///           context has work: run() does not return. A context that is destroyed destroys the
///           handlers, and calls none. A Timer that is given outlives this.
/// Errors:   std::bad_alloc. If Asio has no memory to post a handler, the program stops.
/// Cost:     128 bytes, allocated with it; a wait has one allocation, by the associated allocator.
template <class Executor = net::any_io_executor>
class basic_wheel_timer {  // NOLINT(readability-identifier-naming): as Asio's
 public:
  using executor_type = Executor;
  using clock_type = std::chrono::steady_clock;
  using duration = clock_type::duration;
  using time_point = clock_type::time_point;
  template <class Other>
  struct rebind_executor {                   // NOLINT(readability-identifier-naming): as Asio's
    using other = basic_wheel_timer<Other>;  // NOLINT(readability-identifier-naming): as Asio's
  };

  /// It has expired, long ago.
  explicit basic_wheel_timer(const executor_type& executor)
      : basic_wheel_timer(nullptr, executor) {}
  basic_wheel_timer(const executor_type& executor, const time_point& expiry)
      : basic_wheel_timer(nullptr, executor) {
    expires_at(expiry);
  }
  basic_wheel_timer(const executor_type& executor, const duration& after)
      : basic_wheel_timer(nullptr, executor) {
    expires_after(after);
  }
  /// For the executor of a context.
  template <class Context>
    requires std::is_convertible_v<Context&, net::execution_context&>
  explicit basic_wheel_timer(Context& context) : basic_wheel_timer(context.get_executor()) {}
  template <class Context>
    requires std::is_convertible_v<Context&, net::execution_context&>
  basic_wheel_timer(Context& context, const time_point& expiry)
      : basic_wheel_timer(context.get_executor(), expiry) {}
  template <class Context>
    requires std::is_convertible_v<Context&, net::execution_context&>
  basic_wheel_timer(Context& context, const duration& after)
      : basic_wheel_timer(context.get_executor(), after) {}
  /// On a Timer of yours; then also with the arguments of those above.
  basic_wheel_timer(Timer& timer, const executor_type& executor)
      : basic_wheel_timer(&timer, executor) {}
  template <class Context>
    requires std::is_convertible_v<Context&, net::execution_context&>
  basic_wheel_timer(Timer& timer, Context& context)
      : basic_wheel_timer(&timer, context.get_executor()) {}

  basic_wheel_timer(basic_wheel_timer&& other) noexcept = default;
  basic_wheel_timer& operator=(basic_wheel_timer&& other) noexcept {
    if (this != &other) {
      cancel_all();
      executor_ = other.executor_;
      waits_ = std::move(other.waits_);
    }
    return *this;
  }
  ~basic_wheel_timer() { cancel_all(); }

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// The Timer that this is on.
  [[nodiscard]] Timer& timer() const noexcept { return waits_->timer(); }

  [[nodiscard]] time_point expiry() const {
    return time_point(waits_->expiry().time_since_epoch());
  }
  /// Cancels the waits that are pending, and sets when those to come complete. Returns how many it
  /// has cancelled: what has completed already, though its handler has not been called, is not.
  std::size_t expires_at(const time_point& expiry) {
    return waits_->set_expiry(Instant(expiry.time_since_epoch()));
  }
  /// The same, `after` from now.
  std::size_t expires_after(const duration& after) {
    return waits_->set_expiry(saturating_add(timer().now(), after));
  }

  /// Completes the waits that are pending with `error::operation_aborted`. Returns how many.
  std::size_t cancel() { return waits_->cancel(); }
  std::size_t cancel(error_code& error) {
    error = error_code();
    return cancel();
  }
  /// The same for the wait that began first.
  std::size_t cancel_one() { return waits_->cancel_one(); }
  std::size_t cancel_one(error_code& error) {
    error = error_code();
    return cancel_one();
  }

  /// Blocks until the timer expires; cancel() does not end that. Throws system_error if the Timer
  /// is stopped. Not on a thread that the Timer needs to run its callbacks.
  void wait() {
    error_code error;
    wait(error);
    if (error) {
      throw system_error(error, "wait");
    }
  }
  void wait(error_code& error) {
    error = error_code();
    const Instant expiry = waits_->expiry();
    if (expiry <= timer().now()) {
      return;
    }
    const auto state = std::make_shared<std::atomic<int>>(Bell::kSilent);
    timer().at(expiry, Bell(state));
    state->wait(Bell::kSilent);
    if (state->load() == Bell::kGone) {
      error = net::error::operation_aborted;
    }
  }

  /// Begins a wait. `token`: a handler of `void(error_code)`, or any completion token: use_future,
  /// use_awaitable, deferred, bind_cancellation_slot ... Each kind of cancellation ends the wait.
  template <class Token = typename net::default_completion_token<executor_type>::type>
  auto async_wait(Token&& token = Token()) {
    return net::async_initiate<Token, void(error_code)>(Begin{this}, token);
  }

 private:
  struct Begin {
    using executor_type = Executor;

    basic_wheel_timer* self;

    [[nodiscard]] executor_type get_executor() const noexcept { return self->get_executor(); }
    template <class Handler>
    void operator()(Handler&& handler) const {
      self->begin(std::forward<Handler>(handler));
    }
  };

  // Tells a thread that blocks.
  class Bell {
   public:
    static constexpr int kSilent = 0;
    static constexpr int kRung = 1;
    static constexpr int kGone = 2;

    explicit Bell(std::shared_ptr<std::atomic<int>> state) noexcept : state_(std::move(state)) {}
    Bell(Bell&&) noexcept = default;
    Bell& operator=(Bell&&) = delete;
    ~Bell() { ring(kGone); }
    void operator()() { ring(kRung); }

   private:
    void ring(int how) {
      if (const auto state = std::exchange(state_, nullptr)) {
        state->store(how);
        state->notify_all();
      }
    }
    std::shared_ptr<std::atomic<int>> state_;
  };

  basic_wheel_timer(Timer* timer, const executor_type& executor) : executor_(executor) {
    net::execution_context& context = executor_.context();
    auto& service = net::use_service<detail::ContextService>(context);
    waits_ = std::make_shared<detail::Waits>(service.share(),
                                             timer != nullptr ? *timer : service.share()->timer());
  }

  template <class Handler>
  void begin(Handler&& handler) {
    using Stored = std::decay_t<Handler>;
    Stored stored(std::forward<Handler>(handler));
    const std::uint64_t number = waits_->next_number();
#if CARILLON_ASIO_VERSION >= 102000
    auto slot = net::get_associated_cancellation_slot(stored);
    if (slot.is_connected()) {
      slot.assign(
          [waits = std::weak_ptr<detail::Waits>(waits_), number](net::cancellation_type type) {
            const auto held = waits.lock();
            if (held && type != net::cancellation_type::none) {
              held->cancel(number);
            }
          });
    }
#endif
    using Op = detail::HandlerOp<Stored, executor_type>;
    Op* const op = Op::make(std::move(stored), executor_);
    op->number = number;
    waits_->add(*op);
  }

  void cancel_all() noexcept {
    if (waits_) {
      waits_->cancel();
    }
  }

  executor_type executor_;
  std::shared_ptr<detail::Waits> waits_;

 public:
  // For what else can end a wait, from any thread; see asio_coroutines.h.
  [[nodiscard]] const std::shared_ptr<detail::Waits>& internal_waits() const noexcept {
    return waits_;
  }
};

/// That for any executor.
using wheel_timer = basic_wheel_timer<>;  // NOLINT(readability-identifier-naming): as Asio's

}  // namespace CARILLON_ASIO_NAMESPACE
}  // namespace carillon::asio
