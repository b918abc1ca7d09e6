// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Where a Timer's callbacks run. The driver of a Timer only finds out what is due, and hands it to
/// an Executor, so that a callback that takes a minute delays no other timer's expiry.
///
/// | executor              | runs callbacks on                 | full when                        |
/// | --------------------- | --------------------------------- | -------------------------------- |
/// | ThreadPoolExecutor    | threads of its own                | `capacity` callbacks wait        |
/// | inline_executor()     | the thread that drives the timer  | never                            |
/// | function_executor(f)  | whatever `f(callable)` makes of it | never: `f` must take them all   |
///
/// When an executor is full, what is due stays with the Timer, where it can still be cancelled, and
/// is handed over as soon as there is room.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace carillon {

namespace internal {
struct FiringRecord;
struct Core;
}  // namespace internal

/// A callback that is due, on its way to the thread that will run it. A callable of signature
/// `void() noexcept` that is moved and not copied.
///
/// To call it runs the callback, unless that was cancelled meanwhile: then the call does nothing.
/// An exception of the callback goes to TimerOptions::on_exception, not to the caller. To destroy
/// one that was not called drops the callback: it counts as cancelled, and in TimerStats::dropped.
///
/// Threads:  one at a time; any.
/// Lifetime: may outlive the Timer, whose destructor cancels what has not begun.
/// Cost:     a pointer.
class Firing {
 public:
  Firing() noexcept = default;
  Firing(Firing&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  Firing& operator=(Firing&& other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  Firing(const Firing&) = delete;
  Firing& operator=(const Firing&) = delete;
  ~Firing() {
    if (record_ != nullptr) {
      drop();
    }
  }

  /// Runs the callback. A second call does nothing.
  void operator()() noexcept;

  /// False for one that was called, or moved from.
  explicit operator bool() const noexcept { return record_ != nullptr; }

 private:
  friend struct internal::Core;
  explicit Firing(internal::FiringRecord* record) noexcept : record_(record) {}
  void drop() noexcept;

  internal::FiringRecord* record_ = nullptr;
};

/// Wants to know when an executor that was full has room again.
///
/// Lifetime: valid as long as the program runs, so an executor may call it at any time.
class RoomListener {
 public:
  /// Threads: any. Does not block, and does not call the executor.
  virtual void on_room() noexcept = 0;

 protected:
  ~RoomListener() = default;
};

/// Runs callbacks that are due.
///
/// Threads:   try_execute() is called from the driver's thread of each Timer that uses it: one
///            executor may serve many timers, so it must be safe from any thread.
/// Lifetime:  shared by the timers that use it, which hold a std::shared_ptr to it.
class Executor {
 public:
  virtual ~Executor() = default;

  /// Called by the thread that schedules the first timer, before that is scheduled; perhaps again,
  /// and by several threads at a time. What it throws goes to who schedules, and nothing is
  /// scheduled: for executors that cannot run anything without a thread or a connection. A lock of
  /// that Timer's is held: it must not use the Timer.
  virtual void prepare() {}

  /// Takes as many of `firings` as there is room for, from the front, and answers how many: those
  /// have been moved from, or called. It should not block, since no other timer expires meanwhile.
  ///
  /// If that is fewer than all, it calls `listener.on_room()` once when there is room again, at
  /// once if that is so already; until then the Timer hands over nothing more.
  ///
  /// Throws nothing but std::bad_alloc and std::system_error, and before it has taken any: the
  /// driver tries again a tick later, poll() throws them on. Anything else stops the program.
  [[nodiscard]] virtual std::size_t try_execute(std::span<Firing> firings,
                                                RoomListener& listener) = 0;
};

struct ThreadPoolOptions {
  /// With one thread a callback that blocks stops all others; with two, it takes two that do.
  unsigned threads = 2;
  /// Callbacks that wait for a thread, at most; rounded up to a power of two. What is beyond it
  /// stays in the timer, so this need only be enough to keep the threads busy.
  std::size_t capacity = 1024;
  /// Of the threads, to be seen in a debugger; 15 characters are kept.
  std::string thread_name = "carillon-pool";
};

/// A small pool of threads with a bounded queue; begins callbacks in the order handed over.
///
/// Threads:   safe. One thread is started with the first timer, the others by the first callback.
/// Errors:    prepare() throws std::system_error if no thread can be started. As long as there is
///            one, those that cannot be started are done without, and tried again.
/// Lifetime:  the destructor waits for the callbacks that have begun, but for one that it is called
///            from, and drops the others.
/// Cost:      a callback passes through a lock-free queue; a thread that has nothing to do sleeps,
///            and is woken by a system call.
class ThreadPoolExecutor final : public Executor {
 public:
  ThreadPoolExecutor();
  explicit ThreadPoolExecutor(ThreadPoolOptions options);
  ~ThreadPoolExecutor() override;
  ThreadPoolExecutor(const ThreadPoolExecutor&) = delete;
  ThreadPoolExecutor& operator=(const ThreadPoolExecutor&) = delete;

  void prepare() override;
  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings, RoomListener& listener) override;

 private:
  class Pool;
  std::shared_ptr<Pool> pool_;
};

/// Runs each callback at once on the thread that drives the timer: no hand-over, no second thread.
/// For callbacks that never block: one that does delays all other timers. The one object there is.
[[nodiscard]] std::shared_ptr<Executor> inline_executor();

namespace internal {

template <class R, class A>
std::type_identity<A> argument_of(R (*)(A));
template <class R, class C, class A>
std::type_identity<A> argument_of(R (C::*)(A));
template <class R, class C, class A>
std::type_identity<A> argument_of(R (C::*)(A) const);

// Is a Firing to be wrapped so that it can be copied? Yes, if F names a parameter that can be
// copied, as std::function can: that takes a Firing as far as its declaration says, and then does
// not compile.
template <class F>
constexpr bool wants_copyable() {
  if constexpr (!std::is_invocable_v<F&, Firing>) {
    return true;
  } else if constexpr (requires { argument_of(&F::operator()); }) {
    using Argument = typename decltype(argument_of(&F::operator()))::type;
    return std::is_copy_constructible_v<std::remove_cvref_t<Argument>>;
  } else if constexpr (requires(F f) { argument_of(f); }) {
    using Argument = typename decltype(argument_of(std::declval<F>()))::type;
    return std::is_copy_constructible_v<std::remove_cvref_t<Argument>>;
  } else {
    return false;
  }
}

template <class F>
class FunctionExecutor final : public Executor {
 public:
  explicit FunctionExecutor(F function) : function_(std::move(function)) {}

  [[nodiscard]] std::size_t try_execute(std::span<Firing> firings, RoomListener&) override {
    for (Firing& firing : firings) {
      if constexpr (!wants_copyable<F>()) {
        function_(std::move(firing));
      } else {
        function_([shared = std::make_shared<Firing>(std::move(firing))] { (*shared)(); });
      }
    }
    return firings.size();
  }

 private:
  F function_;
};

}  // namespace internal

/// An executor of any function that takes a callable and has it run some time, somewhere:
///
///     function_executor([&io](auto&& callback) { asio::post(io, std::move(callback)); })
///     function_executor([&](std::function<void()> callback) { queue.push(std::move(callback)); })
///
/// `f` is given a Firing, which is moved and not copied. If the type of its parameter can be copied
/// (as std::function), or takes no Firing, it is given a callable that can be copied, which costs
/// an allocation. A generic function (auto) is given a Firing.
/// Threads: as Executor: `f` is called from the driver of each timer.
/// Errors:  what `f` throws stops the program. It cannot refuse: bound the queue yourself, or
///          derive from Executor.
template <class F>
[[nodiscard]] std::shared_ptr<Executor> function_executor(F&& function) {
  return std::make_shared<internal::FunctionExecutor<std::decay_t<F>>>(std::forward<F>(function));
}

}  // namespace carillon
