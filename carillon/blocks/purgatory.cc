// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <new>

#include "carillon/blocks/internal/purgatory_operation.h"

namespace carillon::internal {

WaitingOperation* WaitingOperation::make(std::size_t keys, UniqueFunction<bool()> condition,
                                         UniqueFunction<void(Outcome)> done) {
  static_assert(alignof(WatchLink) <= alignof(WaitingOperation) &&
                sizeof(WaitingOperation) % alignof(WatchLink) == 0);
  void* memory = ::operator new(sizeof(WaitingOperation) + keys * sizeof(WatchLink));
  auto* operation = ::new (memory) WaitingOperation(keys, std::move(condition), std::move(done));
  operation->links_ =
      reinterpret_cast<WatchLink*>(static_cast<std::byte*>(memory) + sizeof(WaitingOperation));
  std::uninitialized_default_construct_n(operation->links_, keys);
  return operation;
}

void WaitingOperation::destroy() noexcept {
  this->~WaitingOperation();
  ::operator delete(this);
}

void WaitingOperation::begin(WatchShard& shard) noexcept {
  home_ = &shard;
  shard.alive.fetch_add(1, std::memory_order_relaxed);
}

//     tries_     a thread that tries             another, that has changed something
//     0 -> 1     condition: no
//     1 -> 2                                     leaves it to the first
//     2 -> 0?    no, it was 1: try again
//     2          condition: yes
bool WaitingOperation::attempt() noexcept {
  if (tries_.fetch_add(1, std::memory_order_acq_rel) != 0) {
    return false;
  }
  for (;;) {
    std::uint32_t asked = tries_.load(std::memory_order_acquire);
    if ((asked & kUnlinked) != 0) {
      finish();  // Who has unlinked it saw that it was being tried, and left that to this thread.
      return false;
    }
    if (!ended() && condition_() && settle(Outcome::kCompleted)) {
      finish();
      return true;
    }
    // If it has been decided, and not unlinked yet: who does that will find nobody trying.
    if (tries_.compare_exchange_strong(asked, 0, std::memory_order_acq_rel)) {
      return false;
    }
  }
}

bool WaitingOperation::settle(Outcome outcome) noexcept {
  std::uint8_t none = kNone;
  if (!outcome_.compare_exchange_strong(none, static_cast<std::uint8_t>(outcome),
                                        std::memory_order_acq_rel)) {
    return false;
  }
  // What is being linked by another thread right now sees the outcome, under the shard's lock.
  for (std::size_t i = 0; i < keys_; ++i) {
    links_[i].shard->unlink(links_[i]);
  }
  if (armed_.exchange(Armed::kEnded, std::memory_order_acq_rel) == Armed::kArmed) {
    timer_.cancel();
  }
  return true;
}

bool WaitingOperation::end(Outcome outcome) noexcept {
  if (!settle(outcome)) {
    return false;
  }
  if (tries_.fetch_add(kUnlinked, std::memory_order_acq_rel) == 0) {
    finish();
  }
  return true;
}

void WaitingOperation::finish() noexcept {
  condition_.reset();
  done_(static_cast<Outcome>(outcome_.load(std::memory_order_relaxed)));
  done_.reset();
  home_->alive.fetch_sub(1, std::memory_order_release);
  drop_ref();
}

void WaitingOperation::arm(Timer& timer, Span timeout) {
  add_ref();
  timer_ = timer.after(timeout, [ref = WaitingRef(this)] { ref->end(Outcome::kExpired); });
  if (!timer_) {
    end(Outcome::kCancelled);
  } else if (armed_.exchange(Armed::kArmed, std::memory_order_acq_rel) == Armed::kEnded) {
    timer_.cancel();
  }
}

}  // namespace carillon::internal
