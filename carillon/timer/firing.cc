// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <typeinfo>
#include <utility>

#include "carillon/timer/internal/core.h"

namespace carillon {
namespace internal {
namespace {

// The callbacks that this thread is in, innermost first.
struct Frame {
  const Core* core;
  const Frame* outer;
};
constinit thread_local const Frame* innermost = nullptr;

}  // namespace

bool Core::in_callback() const noexcept {
  for (const Frame* frame = innermost; frame != nullptr; frame = frame->outer) {
    if (frame->core == this) {
      return true;
    }
  }
  return false;
}

void Core::run(FiringRecord& record) noexcept {
  Shard& shard = *record.shard;
  Core& core = *shard.core;
  FiringState expected = FiringState::kQueued;
  if (record.state.compare_exchange_strong(expected, FiringState::kBegun,
                                           std::memory_order_acq_rel)) {
    shard.flight.fetch_sub(Shard::kOneQueued, std::memory_order_acq_rel);
    {
      const Frame frame{&core, innermost};
      innermost = &frame;
      try {
        record.callback();
      } catch (...) {
        core.report(shard);
      }
      record.callback.reset();
      innermost = frame.outer;
    }
    record.state.store(FiringState::kDone);  // See Shard::has_begun().
    if (core.awaiting.load() != 0) {
      core.ended_epoch.fetch_add(1);
      futex_wake_all(core.ended_epoch);
    }
  }
  consume(record);
}

void Core::drop(FiringRecord& record) noexcept {
  {
    Shard& shard = *record.shard;
    TimerCallback doomed;
    const SpinLockHold hold(shard.mutex);
    if (shard.take_back(record, doomed)) {
      ++shard.cancelled;
      ++shard.dropped;
    }
  }
  consume(record);
}

void Core::consume(FiringRecord& record) noexcept {
  Shard& shard = *record.shard;
  FiringRecord* head = shard.finished.load(std::memory_order_relaxed);
  do {
    record.next_free = head;
  } while (!shard.finished.compare_exchange_weak(head, &record, std::memory_order_release,
                                                 std::memory_order_relaxed));
  let_go(shard);
}

void Core::let_go(Shard& shard) noexcept {
  Core& core = *shard.core;
  const std::uint64_t before = shard.flight.fetch_sub(Shard::kOneHeld, std::memory_order_acq_rel);
  if (before >> 32 == 1) {
    core.drop_hold();
  }
}

void Core::report(Shard& shard) noexcept {
  shard.exceptions.fetch_add(1, std::memory_order_relaxed);
  if (life->options.on_exception) {
    life->options.on_exception(std::current_exception());
    return;
  }
  if (exception_told.exchange(true)) {
    return;
  }
  try {
    throw;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "%s: a callback threw %s: %s (later ones are only counted)\n",
                 life->options.thread_name.c_str(), typeid(exception).name(), exception.what());
  } catch (...) {
    std::fprintf(stderr, "%s: a callback threw (later exceptions are only counted)\n",
                 life->options.thread_name.c_str());
  }
}

}  // namespace internal

void Firing::operator()() noexcept {
  if (record_ != nullptr) {
    internal::Core::run(*std::exchange(record_, nullptr));
  }
}

void Firing::drop() noexcept { internal::Core::drop(*std::exchange(record_, nullptr)); }

}  // namespace carillon
