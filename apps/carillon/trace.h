// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A wheel and a few named timers in virtual time, and what happens to them: where each lies, what
/// cascades, what fires. `carillon trace` draws it.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/wheel/hook.h"
#include "carillon/wheel/snapshot.h"

namespace carillon::app {

enum class WheelKind {
  kHashed,        ///< HashedWheel, of so many slots.
  kHierarchical,  ///< HierarchicalWheel.
  kLinux,         ///< LinuxWheel.
  kKafka,         ///< KafkaWheel.
  kClock,         ///< WallClockWheel: a tick is a millisecond.
  kHours,         ///< Its upper levels: a tick is a second.
  kCoarse,        ///< CoarseWheel.
  kKernel,        ///< KernelWheel.
};

/// What is to be traced.
struct TraceSetup {
  WheelKind kind = WheelKind::kHashed;
  /// Of a hashed wheel.
  std::size_t slots = 8;
  Span tick = std::chrono::seconds(1);
  /// When all timers are scheduled, since the wheel's time began.
  Span start{};
  /// Whether that is a time of day, and what follows is drawn as such.
  bool time_of_day = false;
  std::vector<Span> delays;
};

/// The stories that are built in: `a`, `b` and `c`.
struct TraceStory {
  char name;
  std::string_view title;
  TraceSetup setup;
};
[[nodiscard]] const std::array<TraceStory, 3>& trace_stories();

/// A wheel that turns.
///
/// Time:      virtual, in ticks; told by advance().
/// Errors:    create() says which option is wrong and what it may be, as "--delay: ...".
class Trace {
 public:
  /// They are named A to Z.
  static constexpr std::size_t kMostTimers = 26;
  /// Of a hashed wheel.
  static constexpr std::size_t kMostSlots = 4096;

  struct Place {
    int level = 0;
    int slot = 0;
    /// Of a hashed wheel: how often the hand passes before it fires.
    Tick rounds = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  struct Timer {
    char name = '?';
    /// What was asked for.
    Tick deadline = 0;
    /// When the wheel gives it out: later only on a coarse wheel.
    Tick due = 0;
    /// Where it lies; nothing once it has fired.
    std::optional<Place> place;
    std::optional<Tick> fired_at;
  };
  struct Event {
    enum class Kind {
      kCascades,  ///< It has moved to a finer level.
      kPasses,    ///< The hand has passed it: a round less.
      kFires,
    };
    Kind kind = Kind::kFires;
    std::size_t timer = 0;
    Place from;
    /// Where it went; for what fires, where it was last.
    Place to;
  };

  [[nodiscard]] static Result<Trace> create(const TraceSetup& setup);
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;
  ~Trace();

  [[nodiscard]] Tick now() const noexcept { return now_; }
  [[nodiscard]] Tick start() const noexcept { return start_; }
  [[nodiscard]] const std::vector<Timer>& timers() const noexcept { return timers_; }
  /// All levels: how long their slots are, where their hands are, how many timers lie where.
  [[nodiscard]] WheelSnapshot snapshot() const;
  /// The levels that any timer has lain on, from the finest.
  [[nodiscard]] std::size_t levels_in_use() const noexcept { return levels_in_use_; }

  /// The next tick at which something may happen: a hand enters a slot with timers. Nothing when
  /// all have fired.
  [[nodiscard]] std::optional<Tick> next_event() const;
  /// Turns the wheel to `target`, in one step: as tick by tick if it is not after next_event().
  /// Returns what happened, in order.
  std::vector<Event> advance(Tick target);

 private:
  class Wheel;
  struct Hook;
  template <class Kind>
  class WheelOf;

  Trace() = default;
  static std::unique_ptr<Wheel> make_wheel(const TraceSetup& setup, Tick now);
  [[nodiscard]] std::optional<Place> locate(std::size_t timer) const;

  Tick start_ = 0;
  Tick now_ = 0;
  std::size_t levels_in_use_ = 1;
  std::vector<Timer> timers_;
  // The hooks outlive the wheels.
  std::vector<std::unique_ptr<Hook>> hooks_;
  std::unique_ptr<Wheel> wheel_;
  // A snapshot counts timers and does not name them. So each timer is also in a wheel of its own,
  // of the same kind and turned in the same way: where that one has a timer, there it lies.
  std::vector<std::unique_ptr<Wheel>> own_wheels_;
};

}  // namespace carillon::app
