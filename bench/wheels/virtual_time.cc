// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/virtual_time.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

#include "carillon/base/check.h"

namespace carillon::bench {
namespace {

constexpr Tick kTicksPerSecond = 1'000;
// Clocks do not start at zero: some libraries take that for "not yet read".
constexpr std::time_t kEpochSeconds = 1'000;

VirtualTime* the_time = nullptr;

using ClockGettime = int (*)(clockid_t, timespec*);

ClockGettime find_clock_gettime() {
  const auto found = reinterpret_cast<ClockGettime>(::dlsym(RTLD_NEXT, "clock_gettime"));
  CARILLON_CHECK(found != nullptr);
  return found;
}

int libc_clock_gettime(clockid_t clock, timespec* time) {
  static const ClockGettime kNext = find_clock_gettime();
  return kNext(clock, time);
}

}  // namespace

timespec real_time() {
  timespec time = {};
  libc_clock_gettime(CLOCK_MONOTONIC, &time);
  return time;
}

VirtualTime::VirtualTime() {
  CARILLON_CHECK(the_time == nullptr);
  the_time = this;
}

VirtualTime::~VirtualTime() { the_time = nullptr; }

VirtualTime* VirtualTime::present() noexcept { return the_time; }

void VirtualTime::wait(int timeout_ms) {
  if (timeout_ms == 0) return;
  const Tick left = target_ - now_;
  if (timeout_ms > 0 && static_cast<Tick>(timeout_ms) <= left) {
    now_ += static_cast<Tick>(timeout_ms);
    return;
  }
  CARILLON_CHECK(leave_ != nullptr, "a loop waits outside of run_until()");
  now_ = target_;
  leave_(context_);
}

timespec VirtualTime::time() const noexcept {
  return {kEpochSeconds + static_cast<std::time_t>(now_ / kTicksPerSecond),
          static_cast<long>(now_ % kTicksPerSecond) * 1'000'000};
}

}  // namespace carillon::bench

// What the libraries call.
extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto* present = carillon::bench::VirtualTime::present();
  if (present == nullptr) return carillon::bench::libc_clock_gettime(clock, time);
  *time = present->time();
  return 0;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  const auto* present = carillon::bench::VirtualTime::present();
  if (present == nullptr) return static_cast<int>(::syscall(SYS_gettimeofday, time, zone));
  const timespec now = present->time();
  *time = {now.tv_sec, now.tv_nsec / 1'000};
  return 0;
}

int epoll_pwait(int epoll, epoll_event* events, int most, int timeout, const sigset_t* signals) {
  if (auto* present = carillon::bench::VirtualTime::present(); present != nullptr) {
    present->wait(timeout);
    return 0;
  }
  // The kernel's own set of signals is 64 bits.
  return static_cast<int>(::syscall(SYS_epoll_pwait, epoll, events, most, timeout, signals, 8));
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  return epoll_pwait(epoll, events, most, timeout, nullptr);
}

// A loop that cannot have one waits by epoll_wait alone.
int timerfd_create(clockid_t clock, int flags) noexcept {
  if (carillon::bench::VirtualTime::present() != nullptr) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
}

}  // extern "C"
