// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/wheel/coarse_wheel.h"
#include "carillon/wheel/hashed_wheel.h"
#include "carillon/wheel/hierarchical_wheel_impl.h"
#include "carillon/wheel/kafka_wheel.h"
#include "carillon/wheel/wall_clock_wheel.h"

namespace carillon::app {
namespace {

using namespace std::chrono_literals;

using HoursWheel = BasicHierarchicalWheel<MixedRadixLevels<60, 60, 24, 100>>;

Error wrong(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// Whole ticks, rounded up: a timer is never early.
Tick ceil_ticks(Span span, Span tick) {
  const std::int64_t whole = span.count() / tick.count();
  return static_cast<Tick>(whole) + (span.count() % tick.count() > 0 ? 1 : 0);
}

}  // namespace

const std::array<TraceStory, 3>& trace_stories() {
  static const std::array<TraceStory, 3> stories = {{
      {'a',
       "a hashed wheel",
       {.kind = WheelKind::kHashed, .slots = 8, .tick = 1s, .start = 2s, .delays = {5s, 3s, 11s}}},
      {'b',
       "hours, minutes and seconds",
       {.kind = WheelKind::kHours, .tick = 1s, .delays = {150min}}},
      {'c',
       "Kafka's levels, and their overflow",
       {.kind = WheelKind::kKafka, .tick = 1ms, .delays = {5ms, 100ms, 3s, 10s}}},
  }};
  return stories;
}

struct Trace::Hook : WheelHook {
  explicit Hook(std::size_t i) : index(i) {}
  std::size_t index;
  // The one in the wheel of its own.
  WheelHook own;
};

class Trace::Wheel {
 public:
  Wheel() = default;
  Wheel(const Wheel&) = delete;
  Wheel& operator=(const Wheel&) = delete;
  virtual ~Wheel() = default;
  virtual void schedule(WheelHook& hook, Tick deadline) = 0;
  // What expires, in order.
  virtual std::vector<WheelHook*> advance(Tick target) = 0;
  [[nodiscard]] virtual WheelSnapshot snapshot() const = 0;
  [[nodiscard]] virtual Tick rounds(Tick deadline) const = 0;
  [[nodiscard]] virtual bool cascades() const = 0;
};

template <class Kind>
class Trace::WheelOf final : public Wheel {
 public:
  template <class... Arguments>
  explicit WheelOf(Arguments... arguments) : wheel_(arguments...) {}

  void schedule(WheelHook& hook, Tick deadline) override { wheel_.schedule(hook, deadline); }
  std::vector<WheelHook*> advance(Tick target) override {
    std::vector<WheelHook*> expired;
    wheel_.advance(target, [&](WheelHook& hook) { expired.push_back(&hook); });
    return expired;
  }
  [[nodiscard]] WheelSnapshot snapshot() const override { return wheel_.snapshot(); }
  [[nodiscard]] Tick rounds(Tick deadline) const override {
    if constexpr (std::is_same_v<Kind, HashedWheel>) {
      return wheel_.rounds(deadline);
    } else {
      return 0;
    }
  }
  [[nodiscard]] bool cascades() const override {
    return !std::is_same_v<Kind, CoarseWheel> && !std::is_same_v<Kind, KernelWheel>;
  }

 private:
  Kind wheel_;
};

std::unique_ptr<Trace::Wheel> Trace::make_wheel(const TraceSetup& setup, Tick now) {
  switch (setup.kind) {
    case WheelKind::kHashed: return std::make_unique<WheelOf<HashedWheel>>(now, setup.slots);
    case WheelKind::kHierarchical: return std::make_unique<WheelOf<HierarchicalWheel>>(now);
    case WheelKind::kLinux: return std::make_unique<WheelOf<LinuxWheel>>(now);
    case WheelKind::kKafka: return std::make_unique<WheelOf<KafkaWheel>>(now);
    case WheelKind::kClock: return std::make_unique<WheelOf<WallClockWheel>>(now);
    case WheelKind::kHours: return std::make_unique<WheelOf<HoursWheel>>(now);
    case WheelKind::kCoarse: return std::make_unique<WheelOf<CoarseWheel>>(now);
    case WheelKind::kKernel: return std::make_unique<WheelOf<KernelWheel>>(now);
  }
  CARILLON_CHECK(false, "no such wheel: ", static_cast<int>(setup.kind));
  return nullptr;
}

Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;
Trace::~Trace() = default;

Result<Trace> Trace::create(const TraceSetup& setup) {
  if (setup.slots < 1 || setup.slots > kMostSlots) {
    return wrong(fmt::format("--slots: {} is out of range (1 to {})", setup.slots, kMostSlots));
  }
  if (setup.tick <= Span::zero()) return wrong("--tick: must be longer than 0");
  if (setup.start < Span::zero() || setup.start.count() % setup.tick.count() != 0) {
    return wrong("--at: must be a whole number of ticks");
  }
  if (setup.delays.empty() || setup.delays.size() > kMostTimers) {
    return wrong(fmt::format("--delay: {} timers, where 1 to {} can be traced", setup.delays.size(),
                             kMostTimers));
  }
  Trace trace;
  trace.now_ = trace.start_ = static_cast<Tick>(setup.start / setup.tick);
  trace.wheel_ = make_wheel(setup, trace.now_);
  for (const Span delay : setup.delays) {
    const std::size_t index = trace.timers_.size();
    Timer& timer = trace.timers_.emplace_back();
    timer.name = static_cast<char>('A' + index);
    timer.deadline = trace.now_ + ceil_ticks(std::max(delay, Span::zero()), setup.tick);
    Hook& hook = *trace.hooks_.emplace_back(std::make_unique<Hook>(index));
    Wheel& own = *trace.own_wheels_.emplace_back(make_wheel(setup, trace.now_));
    trace.wheel_->schedule(hook, timer.deadline);
    own.schedule(hook.own, timer.deadline);
    timer.due = hook.deadline();
    timer.place = trace.locate(index);
    trace.levels_in_use_ =
        std::max(trace.levels_in_use_, static_cast<std::size_t>(timer.place->level) + 1);
  }
  return trace;
}

std::optional<Trace::Place> Trace::locate(std::size_t timer) const {
  const Wheel& own = *own_wheels_[timer];
  const WheelSnapshot snapshot = own.snapshot();
  for (std::size_t level = 0; level < snapshot.levels.size(); ++level) {
    const auto& counts = snapshot.levels[level].counts;
    const auto found = std::find(counts.begin(), counts.end(), std::size_t{1});
    if (found != counts.end()) {
      return Place{static_cast<int>(level), static_cast<int>(found - counts.begin()),
                   own.rounds(timers_[timer].due)};
    }
  }
  return std::nullopt;
}

WheelSnapshot Trace::snapshot() const { return wheel_->snapshot(); }

std::optional<Tick> Trace::next_event() const {
  const WheelSnapshot shape = snapshot();
  std::optional<Tick> next;
  for (const Timer& timer : timers_) {
    if (!timer.place) continue;
    const auto& level = shape.levels[static_cast<std::size_t>(timer.place->level)];
    const Tick slots = level.counts.size();
    const Tick hand = static_cast<Tick>(level.hand);
    const Tick slot = static_cast<Tick>(timer.place->slot);
    // A slot under the hand is a turn away.
    const Tick ahead = slot > hand ? slot - hand : slot + slots - hand;
    // The timer fires before the end of time, so this does not wrap: unless it has rounds to wait.
    const Tick number = now_ / level.granularity + ahead;
    const Tick enters = std::min(timer.due, number * level.granularity);
    next = std::min(next.value_or(enters), enters);
  }
  return next;
}

std::vector<Trace::Event> Trace::advance(Tick target) {
  std::vector<Event> events;
  std::vector<Event> passes;
  const std::vector<WheelHook*> fired = wheel_->advance(target);
  now_ = std::max(now_, target);
  for (std::size_t i = 0; i < timers_.size(); ++i) {
    Timer& timer = timers_[i];
    if (!timer.place) continue;
    const bool own_fired = !own_wheels_[i]->advance(target).empty();
    CARILLON_CHECK(own_fired == !hooks_[i]->scheduled(), "timer ", i, " at ", target);
    if (own_fired) continue;
    const Place from = *timer.place;
    timer.place = locate(i);
    if (timer.place->level != from.level) {
      events.push_back({Event::Kind::kCascades, i, from, *timer.place});
    } else if (timer.place->rounds != from.rounds) {
      passes.push_back({Event::Kind::kPasses, i, from, *timer.place});
    }
  }
  for (WheelHook* hook : fired) {
    const std::size_t i = static_cast<Hook*>(hook)->index;
    Timer& timer = timers_[i];
    const Place from = *timer.place;
    Place to = from;
    if (from.level > 0 && wheel_->cascades()) {
      // It went to the finest level, into the slot under the hand, and out of it.
      to = {};
      to.slot = snapshot().levels[0].hand;
    }
    events.push_back({Event::Kind::kFires, i, from, to});
    timer.place.reset();
    timer.fired_at = timer.due;
  }
  events.insert(events.end(), passes.begin(), passes.end());
  return events;
}

}  // namespace carillon::app
