// SPDX-License-Identifier: Apache-2.0
#include <ev.h>

#include "bench/wheels/library_subject.h"
#include "bench/wheels/workloads.h"

namespace carillon::bench {
namespace {

struct EvTimer : ev_timer {};

class EvSubject : public LibrarySubject<EvTimer> {
 public:
  using Timer = EvTimer;
  static constexpr std::string_view kName = "libev";
  static constexpr bool kEqualTimeouts = false;

  explicit EvSubject(std::size_t) : loop_(ev_loop_new(EVBACKEND_EPOLL)) {
    if (loop_ == nullptr) throw BenchError("libev: no loop");
    ev_set_userdata(loop_, this);
  }
  ~EvSubject() { ev_loop_destroy(loop_); }
  EvSubject(const EvSubject&) = delete;
  EvSubject& operator=(const EvSubject&) = delete;

  void prepare(Timer& timer) { ev_timer_init(&timer, on_timer, 0., 0.); }
  void dispose(Timer& timer) { ev_timer_stop(loop_, &timer); }

  void schedule(Timer& timer, Tick deadline) {
    ev_timer_set(&timer, seconds_until(deadline), 0.);
    ev_timer_start(loop_, &timer);
  }
  void cancel(Timer& timer) { ev_timer_stop(loop_, &timer); }
  // What libev's manual advises for idle timeouts: a repeat, begun anew.
  void refresh(Timer& timer, Tick deadline) {
    timer.repeat = seconds_until(deadline);
    ev_timer_again(loop_, &timer);
  }

  // One iteration at a time: ev_break() has no effect on a loop that waits.
  template <class Sink>
  void advance(Tick target, Sink&& sink) {
    with_sink(sink, [&] {
      bool left = false;
      time_.run_until(
          target, [](void* flag) { *static_cast<bool*>(flag) = true; }, &left,
          [&] {
            while (ev_run(loop_, EVRUN_ONCE) != 0 && !left) {
            }
          });
    });
    ev_now_update(loop_);
  }

 private:
  // Times are floating-point numbers of seconds, relative to the loop's. Half a tick less, and none
  // is missed by a rounding error.
  [[nodiscard]] double seconds_until(Tick deadline) const {
    return (static_cast<double>(deadline - time_.now()) - 0.5) * 1e-3;
  }

  static void on_timer(struct ev_loop* loop, ev_timer* timer, int) {
    if (timer->repeat > 0) ev_timer_stop(loop, timer);
    static_cast<EvSubject*>(ev_userdata(loop))->expire(static_cast<Timer&>(*timer));
  }

  struct ev_loop* loop_;
};

}  // namespace

SubjectEntry libev_subject() { return entry_of<EvSubject>(); }

}  // namespace carillon::bench
