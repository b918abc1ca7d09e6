// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A clock of our own for event loops that read the system's, so that no run waits.
///
/// A program that links this defines clock_gettime, gettimeofday, epoll_wait and its kin itself,
/// and the dynamic linker lets libraries find these first. While a VirtualTime exists the clocks
/// show its time, and a loop that would wait in epoll_wait does not: the time it asked for passes
/// at once. So a library is driven through its public interface, on a machine whose time is ours.
/// It also makes no system call to wait, which is as well, since its timers are what is measured.

#include <ctime>

#include "carillon/wheel/hook.h"

namespace carillon::bench {

/// The monotonic clock of the machine, whatever the libraries are told.
[[nodiscard]] timespec real_time();

/// Virtual time, a millisecond a tick.
///
/// Threads: one at a time may exist, and only its own thread may read clocks or wait meanwhile.
class VirtualTime {
 public:
  VirtualTime();
  ~VirtualTime();
  VirtualTime(const VirtualTime&) = delete;
  VirtualTime& operator=(const VirtualTime&) = delete;

  [[nodiscard]] Tick now() const noexcept { return now_; }

  /// Sets the clock.
  void set(Tick now) noexcept { now_ = now; }

  /// Runs `loop()`, which waits for its timers, until it is `target`: waits that end by then pass
  /// at once. At the first that would end later it is `target`, and `leave(context)` is called,
  /// which has to make the loop return.
  template <class Loop>
  void run_until(Tick target, void (*leave)(void*), void* context, Loop&& loop) {
    target_ = target;
    leave_ = leave;
    context_ = context;
    loop();
    now_ = target;
    leave_ = nullptr;
  }

  /// What epoll_wait does.
  void wait(int timeout_ms);
  /// What the clocks show.
  [[nodiscard]] timespec time() const noexcept;

  /// The one that exists, or null.
  [[nodiscard]] static VirtualTime* present() noexcept;

 private:
  Tick now_ = 0;
  Tick target_ = 0;
  void (*leave_)(void*) = nullptr;
  void* context_ = nullptr;
};

}  // namespace carillon::bench
