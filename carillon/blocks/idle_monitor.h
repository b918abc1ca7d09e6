// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Notices who has been silent for too long: connections without a packet, workers without a
/// heartbeat, sessions without a request.
///
/// The obvious way is a timer for each, pushed back at each packet: the dearest operation, done the
/// most often, to make something happen that nearly never does. Here a packet is a *touch*, which
/// notes the time and tells nobody:
///
///     touch, any thread     item.touched = the monitor's time     (a load; a store, if it differs)
///     each `resolution`     time += what has passed; take out of the wheel what comes up:
///                             touched + timeout is to come?       put it where that is
///                             it has passed?                      the callback
///
/// An item that is touched all the time is looked at a few times a timeout. The monitor's time is
/// a number in memory that moves each `resolution`, so a touch reads no clock; and touches within
/// one resolution write nothing, so the cache lines of busy items stay where they are.
///
/// *Its time stands still when the monitor does.* If the process was stopped (a debugger, a
/// suspended machine, a starved host) for ten seconds, then for these ten seconds nobody could be
/// heard: they count as one resolution, not as ten seconds of everybody's silence.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "carillon/base/time.h"
#include "carillon/timer/timer.h"
#include "carillon/timer/unique_function.h"

namespace carillon {

struct IdleMonitorOptions {
  /// How finely silence is measured. The monitor looks around so often while it has items, and not
  /// at all when it has none. From a tick of the Timer to an hour; what is outside is brought
  /// inside.
  Span resolution = std::chrono::milliseconds(100);
  /// The most items; one more is refused. 0: no limit but memory.
  std::size_t max_items = 0;
  /// After so many looks and callbacks it lets others run, for a tick of the Timer.
  std::size_t budget = 2048;
};

namespace internal {

// Stores `now` unless that or something later is there: a thread that was held up between reading
// the time and storing it must not take back what others have noted since.
inline void note_touch(std::atomic<std::int64_t>& touched, std::int64_t now) noexcept {
  std::int64_t known = touched.load(std::memory_order_relaxed);
  while (known < now && !touched.compare_exchange_weak(known, now, std::memory_order_relaxed)) {
  }
}

}  // namespace internal

/// Watches items, each with a timeout of its own.
///
/// Time:      the callback begins when the item has not been touched for its timeout: never before,
///            and at most 2.5 resolutions and four ticks of the Timer after; more if the monitor
///            itself was held up, or thousands fall silent at once. On the Timer's clock.
/// Threads:   safe. touch() from any thread, also of one item from many; no lock, no wait.
/// Lifetime:  an Item may outlive the monitor, and is then watched by nobody. The Timer must
///            outlive the monitor. The destructor forgets all items, waits for a callback that is
///            running, and then none runs; it must not be called from a callback.
/// Callbacks: on the Timer's executor, one after the other: one that blocks delays the others. They
///            may watch, cancel and destroy any item, their own included. What they throw goes to
///            TimerOptions::on_exception; the others run nevertheless.
/// Errors:    watch() answers a null item beyond max_items, and if the Timer takes no timers: it is
///            stopped, or was full when there were no items. Once it watches, a Timer that is full
///            does not end it. What the Timer throws, and std::bad_alloc, pass through.
/// Cost:      touch: a load and a compare, and an exchange if it is the first within a resolution;
///            no clock is read. Below 1 ns in the cache. watch, cancel: O(1), a short lock that all
///            threads share. An item: 40 bytes where it is kept and 112 in the monitor, if its
///            callback has at most 24; 3 to 6 looks a timeout. Two timers while there are items.
///
/// Example (examples/idle_connections.cc):
///     IdleMonitor monitor(timer);
///     connection.idle = monitor.watch(30s, [&connection] { connection.close(); });
///     ...
///     connection.idle.touch();    // a packet
class IdleMonitor {
 public:
  class Item;

  explicit IdleMonitor(Timer& timer, IdleMonitorOptions options = {});
  ~IdleMonitor();
  IdleMonitor(const IdleMonitor&) = delete;
  IdleMonitor& operator=(const IdleMonitor&) = delete;

  /// Watches a new item, as if it had just been touched. Calls `on_idle` once, when it has been
  /// silent for `timeout`; it is not watched any more then: watch it again if it comes back.
  [[nodiscard]] Item watch(Span timeout, UniqueFunction<void()> on_idle);

  /// Items that are watched.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Slot;
  struct Core;

  std::shared_ptr<Core> core_;
};

/// What is watched. Belongs to what it stands for; to destroy it ends the watch, and does not wait
/// for a callback that has begun on another thread.
///
/// Threads: touch() from any thread, while the Item exists; the rest from one at a time.
class [[nodiscard]] IdleMonitor::Item {
 public:
  /// Null: not watched, ever. To touch it does nothing.
  Item() noexcept;
  Item(Item&& other) noexcept;
  /// Ends the watch it had.
  Item& operator=(Item&& other) noexcept;
  ~Item();

  /// False for one that is null: default-constructed, moved from, or refused.
  explicit operator bool() const noexcept { return slot_ != nullptr; }

  /// It is not silent.
  void touch() noexcept {
    if (touched_ != nullptr) {
      internal::note_touch(*touched_, time_->load(std::memory_order_relaxed));
    }
  }

  /// Another timeout, from the last touch on. False if it is not watched any more.
  bool set_timeout(Span timeout) noexcept;

  /// Ends the watch. kCancelled: the callback has not run and never will, and has been destroyed.
  CancelResult cancel() noexcept;

  /// Is it watched? False from when it has been silent for too long, or was cancelled.
  [[nodiscard]] bool watched() const noexcept;

 private:
  friend class IdleMonitor;
  Item(std::shared_ptr<Core> core, Slot* slot) noexcept;
  void release() noexcept;

  std::shared_ptr<Core> core_;
  Slot* slot_ = nullptr;
  // Of the slot, and of the core.
  std::atomic<std::int64_t>* touched_ = nullptr;
  const std::atomic<std::int64_t>* time_ = nullptr;
};

}  // namespace carillon
