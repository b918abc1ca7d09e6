// SPDX-License-Identifier: Apache-2.0
#pragma once

// The inside of carillon::asio::wheel_timer: the waits that are pending on one, and what all of an
// execution context share.
//
//     wheel_timer ──owns──> Waits ──> WaitOp, WaitOp ...   each a handler, with its work
//                             │
//     Timer: one timer ───────┘        while a wait is pending
//
// A wait is completed by who takes its WaitOp out of the list, under the mutex: the timer that has
// fired, cancel(), a cancellation slot, or the context that is being destroyed; that destroys the
// handler, and does not call it, as Asio does.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "carillon/timer/internal/asio_config.h"
#include "carillon/timer/timer.h"

namespace carillon::asio {
inline namespace CARILLON_ASIO_NAMESPACE {
namespace detail {

// A wait that is pending. Destroyed by the one call of complete() or destroy().
class WaitOp {
 public:
  // Has the handler called, as by post.
  virtual void complete(error_code error) noexcept = 0;
  virtual void destroy() noexcept = 0;

  WaitOp* next = nullptr;
  std::uint64_t number = 0;

 protected:
  ~WaitOp() = default;
};

// A handler and what it is called with.
template <class Handler>
struct Completion {
  using allocator_type = net::associated_allocator_t<Handler>;

  Handler handler;
  error_code error;

  allocator_type get_allocator() const noexcept { return net::get_associated_allocator(handler); }
  void operator()() { std::move(handler)(error); }
};

template <class Handler, class IoExecutor>
class HandlerOp final : public WaitOp {
  using Allocator = typename std::allocator_traits<
      net::associated_allocator_t<Handler>>::template rebind_alloc<HandlerOp>;
  using Traits = std::allocator_traits<Allocator>;
  using HandlerExecutor = net::associated_executor_t<Handler, IoExecutor>;

 public:
  HandlerOp(Handler&& handler, const IoExecutor& executor)
      : handler_(std::move(handler)),
        io_work_(executor),
        handler_work_(net::get_associated_executor(handler_, executor)) {}

  static HandlerOp* make(Handler&& handler, const IoExecutor& executor) {
    Allocator allocator(net::get_associated_allocator(handler));
    HandlerOp* const op = Traits::allocate(allocator, 1);
    try {
      return ::new (static_cast<void*>(op)) HandlerOp(std::move(handler), executor);
    } catch (...) {
      Traits::deallocate(allocator, op, 1);
      throw;
    }
  }

  void complete(error_code error) noexcept override {
    // The memory is free for what the hand-over allocates.
    Completion<Handler> completion{std::move(handler_), error};
    const auto io_work = std::move(io_work_);
    const auto handler_work = std::move(handler_work_);
    release(completion.handler);
    net::post(handler_work.get_executor(), std::move(completion));
  }
  void destroy() noexcept override {
    const Handler handler(std::move(handler_));
    release(handler);
  }

 private:
  void release(const Handler& handler) noexcept {
    Allocator allocator(net::get_associated_allocator(handler));
    this->~HandlerOp();
    Traits::deallocate(allocator, this, 1);
  }

  Handler handler_;
  net::executor_work_guard<IoExecutor> io_work_;
  net::executor_work_guard<HandlerExecutor> handler_work_;
};

// First in, first out.
class OpList {
 public:
  OpList() noexcept = default;
  OpList(OpList&& other) noexcept { swap(other); }
  OpList& operator=(OpList&&) = delete;

  void swap(OpList& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(last_, other.last_);
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  void push(WaitOp& op) noexcept {
    (last_ == nullptr ? first_ : last_->next) = &op;
    last_ = &op;
  }
  // Null: there is none.
  WaitOp* pop() noexcept {
    WaitOp* const op = first_;
    if (op != nullptr) {
      first_ = std::exchange(op->next, nullptr);
      if (first_ == nullptr) {
        last_ = nullptr;
      }
    }
    return op;
  }
  // Moves the one of that number to `taken`, if there is one.
  void take(std::uint64_t number, OpList& taken) noexcept {
    OpList kept;
    while (WaitOp* const op = pop()) {
      (op->number == number ? taken : kept).push(*op);
    }
    swap(kept);
  }

 private:
  WaitOp* first_ = nullptr;
  WaitOp* last_ = nullptr;
};

class Waits;

// What the wheel_timers of an execution context share. Outlives that in those that are late.
class ContextShare {
 public:
  // False: the context is being destroyed, and must not be used. Otherwise it stays until leave().
  [[nodiscard]] bool enter() noexcept {
    if ((inside_.fetch_add(1) & kClosed) == 0) {
      return true;
    }
    leave();
    return false;
  }
  void leave() noexcept {
    if (inside_.fetch_sub(1) == kClosed + 1) {
      inside_.notify_all();
    }
  }

  void add(Waits& waits) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.insert(&waits);
  }
  void remove(Waits& waits) noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.erase(&waits);
  }

  // That of the context, for those who have none of their own.
  Timer& timer() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!timer_) {
      TimerOptions options;
      options.executor = inline_executor();  // It only posts.
      options.thread_name = "carillon-asio";
      timer_ = std::make_unique<Timer>(std::move(options));
    }
    return *timer_;
  }

  inline void close() noexcept;

 private:
  static constexpr std::uint32_t kClosed = std::uint32_t{1} << 31;

  std::atomic<std::uint32_t> inside_{0};
  std::mutex mutex_;
  std::unordered_set<Waits*> all_;
  std::unique_ptr<Timer> timer_;
};

// Keeps a context from being destroyed, if it is not yet.
class ContextEntry {
 public:
  explicit ContextEntry(ContextShare& share) noexcept : share_(share), open_(share.enter()) {}
  ~ContextEntry() {
    if (open_) {
      share_.leave();
    }
  }
  ContextEntry(const ContextEntry&) = delete;
  ContextEntry& operator=(const ContextEntry&) = delete;
  explicit operator bool() const noexcept { return open_; }

 private:
  ContextShare& share_;
  const bool open_;
};

class ContextService final : public net::execution_context::service {
 public:
  using key_type = ContextService;
  static inline net::execution_context::id id;

  explicit ContextService(net::execution_context& context) : service(context) {}
  [[nodiscard]] const std::shared_ptr<ContextShare>& share() const noexcept { return share_; }

 private:
  void shutdown() noexcept override { share_->close(); }

  const std::shared_ptr<ContextShare> share_ = std::make_shared<ContextShare>();
};

// The waits of a wheel_timer. Threads: safe, so that a stop token and a cancellation slot may end
// them.
class Waits : public std::enable_shared_from_this<Waits> {
 public:
  Waits(std::shared_ptr<ContextShare> share, Timer& timer)
      : share_(std::move(share)), timer_(timer) {}
  ~Waits() {
    if (known_) {
      share_->remove(*this);
    }
  }
  Waits(const Waits&) = delete;
  Waits& operator=(const Waits&) = delete;

  [[nodiscard]] Timer& timer() const noexcept { return timer_; }
  [[nodiscard]] Instant expiry() const noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    return expiry_;
  }
  // Cancels what waits; returns how many.
  std::size_t set_expiry(Instant expiry) {
    const std::size_t count = cancel();
    const std::lock_guard<std::mutex> lock(mutex_);
    expiry_ = expiry;
    return count;
  }

  std::size_t cancel() noexcept {
    return cancel_some([](OpList& from, OpList& to) { to.swap(from); });
  }
  std::size_t cancel_one() noexcept {
    return cancel_some([](OpList& from, OpList& to) {
      if (WaitOp* const op = from.pop()) {
        to.push(*op);
      }
    });
  }
  std::size_t cancel(std::uint64_t number) noexcept {
    return cancel_some([number](OpList& from, OpList& to) { from.take(number, to); });
  }
  // And has each later wait end at once, cancelled.
  void close() noexcept {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closed_ = true;
    }
    cancel();
  }

  // The number of a wait to come.
  [[nodiscard]] std::uint64_t next_number() noexcept {
    return numbers_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // Owns `op`, also if it throws.
  void add(WaitOp& op) {
    const ContextEntry entry(*share_);
    if (!entry) {
      op.destroy();
      return;
    }
    OpList ended;
    error_code error;
    std::uint64_t generation = 0;
    Instant expiry;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closed_) {
        ended.push(op);
        error = net::error::operation_aborted;
      } else if (!armed_ && expiry_ <= timer_.now()) {
        ended.push(op);
      } else {
        ops_.push(op);
        if (armed_) {
          return;
        }
        armed_ = arming_ = true;
        lost_ = false;
        generation = ++generation_;
        expiry = expiry_;
      }
    }
    if (ended.empty()) {
      arm(generation, expiry);
    } else {
      complete(ended, error);
    }
  }

  // The context is being destroyed: gives the waits to it.
  void surrender(OpList& out) noexcept {
    TimerHandle timer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      known_ = false;
      closed_ = true;
      while (WaitOp* const op = ops_.pop()) {
        out.push(*op);
      }
      timer = disarm();
    }
    timer.cancel();
  }

 private:
  // The callback of the timer.
  class Alarm {
   public:
    Alarm(std::shared_ptr<Waits> waits, std::uint64_t generation) noexcept
        : waits_(std::move(waits)), generation_(generation) {}
    Alarm(Alarm&&) noexcept = default;
    Alarm& operator=(Alarm&&) = delete;
    ~Alarm() {
      if (waits_) {
        waits_->on_timer(generation_, false);
      }
    }
    void operator()() { std::exchange(waits_, nullptr)->on_timer(generation_, true); }

   private:
    std::shared_ptr<Waits> waits_;
    std::uint64_t generation_;
  };

  void arm(std::uint64_t generation, Instant expiry) {
    TimerHandle timer;
    try {
      if (!known_.exchange(true)) {
        share_->add(*this);
      }
      timer = timer_.at(expiry, Alarm(shared_from_this(), generation));
    } catch (...) {
      OpList ended;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        arming_ = false;
        ended.swap(ops_);
        static_cast<void>(disarm());
      }
      while (WaitOp* const op = ended.pop()) {
        op->destroy();
      }
      throw;
    }
    OpList ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      arming_ = false;
      if (generation_ == generation) {
        if (timer && !lost_) {
          timer_handle_ = timer;
          return;
        }
        ended.swap(ops_);
        static_cast<void>(disarm());
      }
    }
    timer.cancel();
    complete(ended, timer.refusal() == Refusal::kLimit ? error_code(net::error::no_buffer_space)
                                                       : net::error::operation_aborted);
  }

  // The timer has fired; or its callback is destroyed unrun.
  void on_timer(std::uint64_t generation, bool elapsed) noexcept {
    const ContextEntry entry(*share_);
    if (!entry) {
      return;  // The context takes what waits.
    }
    OpList ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (generation_ != generation) {
        return;
      }
      if (!elapsed && arming_) {
        lost_ = true;  // arm() knows why.
        return;
      }
      ended.swap(ops_);
      static_cast<void>(disarm());
    }
    complete(ended, elapsed ? error_code() : net::error::operation_aborted);
  }

  // `choose(from, to)` moves those that are to be cancelled.
  template <class Choose>
  std::size_t cancel_some(Choose choose) noexcept {
    const ContextEntry entry(*share_);
    if (!entry) {
      return 0;
    }
    OpList ended;
    TimerHandle timer;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      choose(ops_, ended);
      if (ops_.empty()) {
        timer = disarm();
      }
    }
    timer.cancel();
    return complete(ended, net::error::operation_aborted);
  }

  // What the timer does from now on is of no account. To be cancelled without the mutex: that
  // destroys its callback. Pre: the mutex is held.
  [[nodiscard]] TimerHandle disarm() noexcept {
    armed_ = false;
    ++generation_;
    return std::exchange(timer_handle_, TimerHandle{});
  }

  // Pre: the context has been entered.
  static std::size_t complete(OpList& ended, error_code error) noexcept {
    std::size_t count = 0;
    while (WaitOp* const op = ended.pop()) {
      ++count;
      op->complete(error);
    }
    return count;
  }

  const std::shared_ptr<ContextShare> share_;
  Timer& timer_;
  std::atomic<std::uint64_t> numbers_{0};
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  OpList ops_;
  Instant expiry_{};
  TimerHandle timer_handle_;
  std::uint64_t generation_ = 0;
  bool armed_ = false;   // A timer of this generation is, or is about to be, pending.
  bool arming_ = false;  // About to be.
  bool lost_ = false;    // Its callback was destroyed meanwhile.
  bool closed_ = false;
  // To the share, which must be told when this goes.
  std::atomic<bool> known_{false};
};

inline void ContextShare::close() noexcept {
  for (std::uint32_t inside = inside_.fetch_or(kClosed) | kClosed; inside != kClosed;
       inside = inside_.load()) {
    inside_.wait(inside);
  }
  OpList ended;
  std::unique_ptr<Timer> timer;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    timer = std::move(timer_);
    for (Waits* const waits : all_) {
      waits->surrender(ended);
    }
    all_.clear();
  }
  // These may own wheel_timers, and those their waits.
  while (WaitOp* const op = ended.pop()) {
    op->destroy();
  }
}

}  // namespace detail
}  // namespace CARILLON_ASIO_NAMESPACE
}  // namespace carillon::asio
