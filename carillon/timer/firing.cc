// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>

#include "carillon/timer/internal/core.h"
#include "carillon/timer/internal/fast_clock.h"

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
    if (core.limited && record.periodic == nullptr) {
      core.credit.fetch_add(1, std::memory_order_relaxed);
    }
    {
      const Frame frame{&core, innermost};
      innermost = &frame;
      Instant begun = core.now_or_later();
      for (bool again = true; again;) {
        const Instant due = core.begin_of(record.deadline);
        try {
          record.callback();
        } catch (...) {
          core.report(shard);
        }
        const Instant ended = core.now_or_later();
        core.note_run(shard, begun - due, ended - begun);
        begun = ended;
        again = false;
        if (record.periodic != nullptr || record.callback.target<KeyedRef>() != nullptr) {
          again = shard.finish(record);
        } else {
          record.callback.reset();
          record.state.store(FiringState::kDone);  // See Shard::has_begun().
        }
      }
      innermost = frame.outer;
    }
    if (core.awaiting.load() != 0) {
      core.ended_epoch.fetch_add(1);
      futex_wake_all(core.ended_epoch);
    }
  }
  consume(record);
}

void Core::note_run(Shard& shard, Span late, Span took) noexcept {
  // The two readings may be by different processors, or not exact.
  late = std::max(late, Span::zero());
  took = std::max(took, Span::zero());
  const std::size_t stripe = thread_number() % TimerLife::kStripes;
  life->lateness[stripe].add(late);
  life->callback_time[stripe].add(took);
  const Span limit = life->options.slow_callback;
  if (took > limit && limit > Span::zero()) {
    shard.slow.fetch_add(1, std::memory_order_relaxed);
    tell(life->told_slow, "a callback ran for " +
                              std::to_string(took / std::chrono::milliseconds(1)) +
                              " ms (later ones are only counted)");
  }
}

void Core::drop(FiringRecord& record) noexcept {
  Shard& shard = *record.shard;
  bool dropped = false;
  {
    TimerCallback doomed;
    const SpinLockHold hold(shard.mutex);
    PeriodicTimer* const periodic = record.periodic;
    if (shard.take_back(record, doomed)) {
      dropped = true;
      ++shard.dropped;
      shard.note_cancelled(doomed, record.timer);
      if (periodic != nullptr) {
        shard.retire_periodic(*periodic);
      }
    }
  }
  if (dropped) {
    shard.core->tell(shard.core->life->told_dropped,
                     "the executor dropped a callback unrun (later ones are only counted)");
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
  try {
    throw;
  } catch (const std::exception& exception) {
    tell(life->told_exception, std::string("a callback threw ") + typeid(exception).name() + ": " +
                                   exception.what() + " (later exceptions are only counted)");
  } catch (...) {
    tell(life->told_exception, "a callback threw (later exceptions are only counted)");
  }
}

void Core::tell(std::atomic<bool>& told, std::string_view line) noexcept {
  if (!told.exchange(true)) {
    tell(life->options, line);
  }
}

void Core::tell(const TimerOptions& options, std::string_view line) noexcept {
  if (options.log) {
    options.log(line);
  } else {
    std::fprintf(stderr, "%s: %.*s\n", options.thread_name.c_str(), static_cast<int>(line.size()),
                 line.data());
  }
}

void HistogramStripe::add_to(TimerHistogram& histogram) const noexcept {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t count = counts[i].load(std::memory_order_relaxed);
    histogram.buckets[i] += count;
    histogram.count += count;
  }
  histogram.sum += Span(static_cast<Span::rep>(sum_ns.load(std::memory_order_relaxed)));
}

}  // namespace internal

void Firing::operator()() noexcept {
  if (record_ != nullptr) {
    internal::Core::run(*std::exchange(record_, nullptr));
  }
}

void Firing::drop() noexcept { internal::Core::drop(*std::exchange(record_, nullptr)); }

}  // namespace carillon
