// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <optional>

#include "bench/wheels/library_subject.h"
#include "bench/wheels/workloads.h"

namespace carillon::bench {
namespace {

// steady_timer is basic_waitable_timer of std::chrono::steady_clock; this one shows virtual time.
struct VirtualClock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<VirtualClock>;
  static constexpr bool is_steady = true;

  static time_point at(Tick tick) { return time_point(duration(static_cast<rep>(tick))); }
  static time_point now() { return at(VirtualTime::present()->now()); }
};

using WaitableTimer = boost::asio::basic_waitable_timer<VirtualClock>;

struct AsioTimer {
  std::optional<WaitableTimer> waitable;
};

class AsioSubject : public LibrarySubject<AsioTimer> {
 public:
  using Timer = AsioTimer;
  static constexpr std::string_view kName = "Boost.Asio";
  static constexpr bool kEqualTimeouts = false;

  // One thread, no locks.
  explicit AsioSubject(std::size_t) : context_(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE) {}

  void prepare(Timer& timer) { timer.waitable.emplace(context_); }
  void dispose(Timer& timer) { timer.waitable.reset(); }

  void schedule(Timer& timer, Tick deadline) {
    timer.waitable->expires_at(VirtualClock::at(deadline));  // cancels the wait, if there is one
    timer.waitable->async_wait([this, &timer](const boost::system::error_code& error) {
      if (!error) expire(timer);
    });
  }
  void cancel(Timer& timer) { timer.waitable->cancel(); }
  void refresh(Timer& timer, Tick deadline) { schedule(timer, deadline); }

  // The handlers of cancelled waits run here, too.
  template <class Sink>
  void advance(Tick target, Sink&& sink) {
    with_sink(sink, [&] {
      time_.run_until(
          target, [](void* context) { static_cast<boost::asio::io_context*>(context)->stop(); },
          &context_, [&] { context_.run(); });
    });
    context_.restart();
  }

 private:
  boost::asio::io_context context_;
};

}  // namespace

SubjectEntry asio_subject() { return entry_of<AsioSubject>(); }

}  // namespace carillon::bench
