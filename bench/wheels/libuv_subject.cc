// SPDX-License-Identifier: Apache-2.0
#include <uv.h>

#include "bench/wheels/library_subject.h"
#include "bench/wheels/workloads.h"

namespace carillon::bench {
namespace {

struct UvTimer : uv_timer_t {};

class UvSubject : public LibrarySubject<UvTimer> {
 public:
  using Timer = UvTimer;
  static constexpr std::string_view kName = "libuv";
  static constexpr bool kEqualTimeouts = false;

  explicit UvSubject(std::size_t) {
    if (uv_loop_init(&loop_) != 0) throw BenchError("libuv: no loop");
    loop_.data = this;
  }
  ~UvSubject() { uv_loop_close(&loop_); }
  UvSubject(const UvSubject&) = delete;
  UvSubject& operator=(const UvSubject&) = delete;

  void prepare(Timer& timer) { uv_timer_init(&loop_, &timer); }
  void dispose(Timer& timer) {
    uv_close(reinterpret_cast<uv_handle_t*>(&timer), nullptr);
    uv_run(&loop_, UV_RUN_NOWAIT);  // The handle is the loop's until this.
  }

  void schedule(Timer& timer, Tick deadline) {
    uv_timer_start(&timer, on_timer, deadline - time_.now(), 0);
  }
  void cancel(Timer& timer) { uv_timer_stop(&timer); }
  // uv_timer_again() does the same after a look at the repeat.
  void refresh(Timer& timer, Tick deadline) { schedule(timer, deadline); }

  // The loop says when it wants to be woken, so that the time may be set there: uv_run() would not
  // return from a wait that was cut short.
  template <class Sink>
  void advance(Tick target, Sink&& sink) {
    with_sink(sink, [&] {
      while (uv_loop_alive(&loop_) != 0) {
        const Tick next = time_.now() + static_cast<Tick>(uv_backend_timeout(&loop_));
        if (next > target) break;
        time_.set(next);
        uv_run(&loop_, UV_RUN_NOWAIT);
      }
    });
    time_.set(target);
    uv_update_time(&loop_);
  }

 private:
  static void on_timer(uv_timer_t* timer) {
    static_cast<UvSubject*>(timer->loop->data)->expire(static_cast<Timer&>(*timer));
  }

  uv_loop_t loop_;
};

}  // namespace

SubjectEntry libuv_subject() { return entry_of<UvSubject>(); }

}  // namespace carillon::bench
