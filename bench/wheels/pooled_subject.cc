// SPDX-License-Identifier: Apache-2.0
#include "bench/wheels/workloads.h"
#include "carillon/wheel/pooled_wheel.h"

namespace carillon::bench {
namespace {

// What the object keeps of its timer.
struct PooledTimer {
  WheelHandle handle;
};

// The way back to the object.
struct Owner {
  PooledTimer* timer;
};

class PooledSubject {
 public:
  using Timer = PooledTimer;
  static constexpr std::string_view kName = "PooledWheel";
  static constexpr Family kFamily = Family::kWheel;
  static constexpr bool kEqualTimeouts = false;
  static constexpr bool kDrivesItself = false;
  static constexpr bool kGivesOutHandles = true;
  static constexpr int kLateShift = 0;
  static constexpr std::size_t kPayloadBytes = sizeof(Owner) + sizeof(PooledTimer);

  explicit PooledSubject(std::size_t capacity) { wheel_.reserve(capacity); }

  void prepare(Timer&) {}
  void dispose(Timer&) {}
  void schedule(Timer& timer, Tick deadline) {
    timer.handle = wheel_.schedule(deadline, Owner{&timer});
  }
  void cancel(Timer& timer) { wheel_.cancel(timer.handle); }
  void refresh(Timer& timer, Tick deadline) { wheel_.reschedule(timer.handle, deadline); }
  template <class Sink>
  void advance(Tick now, Sink&& sink) {
    wheel_.advance(now, [&](auto&& expired) { sink(*expired.payload.timer, wheel_.now()); });
  }
  [[nodiscard]] std::optional<Tick> next_deadline() const { return wheel_.next_deadline(); }
  [[nodiscard]] Tick now() const { return wheel_.now(); }

 private:
  PooledWheel<Owner> wheel_;
};

}  // namespace

SubjectEntry pooled_subject() { return entry_of<PooledSubject>(); }

}  // namespace carillon::bench
