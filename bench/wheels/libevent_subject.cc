// SPDX-License-Identifier: Apache-2.0
#include <event2/event.h>
#include <event2/event_struct.h>

#include "bench/wheels/library_subject.h"
#include "bench/wheels/workloads.h"

namespace carillon::bench {
namespace {

timeval timeval_of(Tick ticks) {
  return {static_cast<time_t>(ticks / 1'000), static_cast<suseconds_t>(ticks % 1'000 * 1'000)};
}

struct EventTimer : event {
  EventTimer() : event() {}
};

/// libevent's heap, or with `Common` its queues for timeouts that are all the same.
template <bool Common>
class EventSubject : public LibrarySubject<EventTimer> {
 public:
  using Timer = EventTimer;
  static constexpr std::string_view kName = Common ? "libevent common" : "libevent";
  static constexpr bool kEqualTimeouts = Common;

  explicit EventSubject(std::size_t) : base_(event_base_new()) {
    if (base_ == nullptr) throw BenchError("libevent: no loop");
    const timeval timeout = timeval_of(kIdleTimeout);
    common_ = event_base_init_common_timeout(base_, &timeout);
  }
  ~EventSubject() { event_base_free(base_); }
  EventSubject(const EventSubject&) = delete;
  EventSubject& operator=(const EventSubject&) = delete;

  void prepare(Timer& timer) { event_assign(&timer, base_, -1, 0, on_timer, this); }
  void dispose(Timer& timer) { event_del(&timer); }

  void schedule(Timer& timer, Tick deadline) {
    const timeval after = timeval_of(deadline - time_.now());
    event_add(&timer, Common ? common_ : &after);
  }
  void cancel(Timer& timer) { event_del(&timer); }
  void refresh(Timer& timer, Tick deadline) { schedule(timer, deadline); }

  template <class Sink>
  void advance(Tick target, Sink&& sink) {
    with_sink(sink, [&] {
      time_.run_until(
          target, [](void* base) { event_base_loopbreak(static_cast<event_base*>(base)); }, base_,
          [&] { event_base_dispatch(base_); });
    });
  }

 private:
  static void on_timer(evutil_socket_t, short, void* self) {
    auto* subject = static_cast<EventSubject*>(self);
    subject->expire(static_cast<Timer&>(*event_base_get_running_event(subject->base_)));
  }

  event_base* base_;
  const timeval* common_;
};

}  // namespace

std::vector<SubjectEntry> libevent_subjects() {
  return {entry_of<EventSubject<false>>(), entry_of<EventSubject<true>>()};
}

}  // namespace carillon::bench
