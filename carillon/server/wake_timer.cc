// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/wake_timer.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {
namespace {

constexpr std::int64_t kNanos = 1'000'000'000;

int make_timer() {
  const int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), "timerfd_create");
  return fd;
}

}  // namespace

WakeTimer::WakeTimer(boost::asio::io_context& loop, std::function<void()> on_wake)
    : timer_(loop, make_timer()), on_wake_(std::move(on_wake)) {
  wait();
}

void WakeTimer::set(std::optional<Instant> at) {
  if (at == at_) return;
  at_ = at;
  itimerspec when{};
  if (at) {
    // All zeros would disarm it.
    const std::int64_t nanos = std::max<std::int64_t>(at->time_since_epoch().count(), 1);
    when.it_value = {nanos / kNanos, nanos % kNanos};
  }
  const int result = timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &when, nullptr);
  CARILLON_CHECK(result == 0, "timerfd_settime: ", errno);
}

void WakeTimer::wait() {
  timer_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      std::uint64_t expirations = 0;
                      if (::read(timer_.native_handle(), &expirations, sizeof expirations) > 0) {
                        at_.reset();
                        on_wake_();
                      }
                      wait();
                    });
}

}  // namespace carillon::server
