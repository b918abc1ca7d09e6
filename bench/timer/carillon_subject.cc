// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "bench/timer/workloads.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

// The timer as it comes: ticks of 1 ms, a pool that runs the callbacks.
class CarillonSubject {
 public:
  static constexpr std::string_view kName = kOurs;
  using Handle = TimerHandle;

  CarillonSubject() : CarillonSubject(TimerOptions()) {}
  template <class F>
  Handle add(Span delay, F callback) {
    return timer_.after(delay, callback);
  }
  bool cancel(Handle& handle) { return handle.cancel() == CancelResult::kCancelled; }
  std::size_t close() { return timer_.stop().size(); }

 protected:
  explicit CarillonSubject(TimerOptions options) : timer_(std::move(options)) {}

 private:
  Timer timer_;
};

// Callbacks on the driver's thread, as Netty and the heap run theirs.
class InlineSubject : public CarillonSubject {
 public:
  static constexpr std::string_view kName = "carillon::Timer, inline";
  InlineSubject() : CarillonSubject(options()) {}

 private:
  static TimerOptions options() {
    TimerOptions options;
    options.executor = inline_executor();
    return options;
  }
};

}  // namespace

SubjectEntry carillon_subject() { return entry_of<CarillonSubject>(); }
SubjectEntry carillon_inline_subject() { return entry_of<InlineSubject>(); }

}  // namespace carillon::bench
