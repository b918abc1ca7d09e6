// SPDX-License-Identifier: Apache-2.0
#pragma once

// What waits in a Purgatory, whatever its keys are.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "carillon/blocks/outcome.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon::internal {

class WaitingOperation;
struct WatchLink;

// Operations whose first key lies there. The last to be touched when an operation ends.
struct WatchShard {
  std::atomic<std::size_t> alive{0};
  // Takes the link out, if it is in a list.
  virtual void unlink(WatchLink& link) noexcept = 0;

 protected:
  ~WatchShard() = default;
};

// An operation under one key. Guarded by the lock of the shard.
struct WatchLink {
  WatchLink* prev = nullptr;
  WatchLink* next = nullptr;
  WaitingOperation* operation = nullptr;
  WatchShard* shard = nullptr;
  // The node of the key; null: not linked.
  void* node = nullptr;
  // The last check that has tried it.
  std::uint64_t checked = 0;
};

// Counted: the handle, the timer, and whoever tries it or has taken it out of a list to do so; one
// for all the links together, until the operation has ended.
class WaitingOperation {
 public:
  static WaitingOperation* make(std::size_t keys, UniqueFunction<bool()> condition,
                                UniqueFunction<void(Outcome)> done);

  void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void drop_ref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      destroy();
    }
  }

  [[nodiscard]] bool ended() const noexcept {
    return outcome_.load(std::memory_order_acquire) != kNone;
  }
  // Tries the condition; true if this has completed the operation. If another thread is trying it,
  // that one does so once more.
  bool attempt() noexcept;
  // Ends it, unless it has ended: unlinks, cancels the timer, calls done; or has the thread call it
  // that is trying the condition at the moment.
  bool end(Outcome outcome) noexcept;

  // Has the timer end it. Once, and not by two threads.
  void arm(Timer& timer, Span timeout);

  [[nodiscard]] WatchLink& link(std::size_t number) noexcept { return links_[number]; }
  // Begins to count in the shard of the first key.
  void begin(WatchShard& shard) noexcept;

 private:
  enum class Armed : std::uint8_t { kNot, kArmed, kEnded };
  static constexpr std::uint8_t kNone = 255;
  static constexpr std::uint32_t kUnlinked = std::uint32_t{1} << 31;

  WaitingOperation(std::size_t keys, UniqueFunction<bool()> condition,
                   UniqueFunction<void(Outcome)> done) noexcept
      : keys_(static_cast<std::uint32_t>(keys)),
        condition_(std::move(condition)),
        done_(std::move(done)) {}
  ~WaitingOperation() = default;
  void destroy() noexcept;
  // Decides the outcome and unlinks; false if it was decided before.
  bool settle(Outcome outcome) noexcept;
  void finish() noexcept;

  // The handle, and the links.
  std::atomic<std::uint32_t> refs_{2};
  // How many have asked for a try since the condition was last seen to be false: whoever makes it 1
  // tries. And kUnlinked, when it has been decided and unlinked: then it is never 0 again.
  std::atomic<std::uint32_t> tries_{0};
  std::atomic<std::uint8_t> outcome_{kNone};
  std::atomic<Armed> armed_{Armed::kNot};
  const std::uint32_t keys_;
  // Both: of whoever tries, or who has found that nobody does when it was unlinked.
  UniqueFunction<bool()> condition_;
  UniqueFunction<void(Outcome)> done_;
  TimerHandle timer_;
  WatchShard* home_ = nullptr;
  // Behind the object, in the same allocation.
  WatchLink* links_ = nullptr;
};

class WaitingRef {
 public:
  WaitingRef() noexcept = default;
  // Takes over a reference that is counted already.
  explicit WaitingRef(WaitingOperation* operation) noexcept : operation_(operation) {}
  WaitingRef(const WaitingRef& other) noexcept : operation_(other.operation_) {
    if (operation_ != nullptr) {
      operation_->add_ref();
    }
  }
  WaitingRef(WaitingRef&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  WaitingRef& operator=(WaitingRef other) noexcept {
    std::swap(operation_, other.operation_);
    return *this;
  }
  ~WaitingRef() {
    if (operation_ != nullptr) {
      operation_->drop_ref();
    }
  }
  WaitingOperation& operator*() const noexcept { return *operation_; }
  WaitingOperation* operator->() const noexcept { return operation_; }
  explicit operator bool() const noexcept { return operation_ != nullptr; }

 private:
  WaitingOperation* operation_ = nullptr;
};

}  // namespace carillon::internal
