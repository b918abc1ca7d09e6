// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: `WheelModel`, what a wheel is to do, told with a std::multimap; `TimersOf`, the
/// timers of a wheel by number, whatever the wheel calls them; and `WheelLockstep`, a wheel and the
/// model doing the same operations, compared after each.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "carillon/wheel/wheel_kinds.h"
#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// Timers are named by a small id. A multimap inserts behind equal keys, so it is first in, first
/// out within a tick; of a wheel that rounds, only among those of one deadline, scheduled at one
/// tick.
class WheelModel {
 public:
  WheelModel(Tick now, bool exact) : exact_(exact), now_(now) {}

  [[nodiscard]] Tick now() const { return now_; }
  [[nodiscard]] std::size_t size() const { return timers_.size() + after_end_.size(); }
  [[nodiscard]] std::optional<Tick> next_deadline() const {
    if (!timers_.empty()) {
      return timers_.begin()->first;
    }
    return after_end_.empty() ? std::nullopt : std::optional(kLastTick);
  }

  /// The first tick at which a timer may be given out.
  [[nodiscard]] Tick wanted(Tick deadline) const {
    return now_ == kLastTick ? kLastTick : std::max(deadline, now_ + 1);
  }

  /// Schedules for `deadline` a timer that the wheel is going to give out at `told`.
  void schedule(int id, Tick deadline, Tick told) {
    if (now_ == kLastTick) {
      after_end_.push_back(id);
    } else {
      timers_.emplace(told, Timer{id, now_, wanted(deadline)});
    }
  }

  void reschedule(int id, Tick deadline, Tick told) {
    cancel(id);
    schedule(id, deadline, told);
  }

  /// As reschedule; but unless it will be given out earlier, or is due already, the timer loses its
  /// place in the order of its tick.
  void postpone(int id, Tick deadline, Tick told) {
    const auto at = find(id);
    const bool keeps_order =
        at == timers_.end() || deadline <= now_ || told < at->first || at->first <= now_;
    reschedule(id, deadline, told);
    if (!keeps_order) {
      unordered_.insert(id);
    }
  }

  bool cancel(int id) {
    unordered_.erase(id);
    const auto found = find(id);
    if (found != timers_.end()) {
      timers_.erase(found);
      return true;
    }
    return std::erase(after_end_, id) > 0;
  }

  [[nodiscard]] bool is_before_all_others(int id) {
    const auto found = find(id);
    if (found == timers_.end()) {
      return timers_.empty() && after_end_.size() == 1;
    }
    const auto next = std::next(found);
    return found == timers_.begin() && (next == timers_.end() || next->first > found->first) &&
           (after_end_.empty() || found->first < kLastTick);
  }

  void clear() {
    timers_.clear();
    after_end_.clear();
    unordered_.clear();
  }

  /// Are timers due that a budget left behind?
  [[nodiscard]] std::size_t due() const { return timers_.count(now_); }
  [[nodiscard]] bool has_due() const { return !timers_.empty() && timers_.begin()->first == now_; }

  /// An advance() begins: at the end of time, what was scheduled there is due from now on.
  void begin_advance(Tick target) {
    if (now_ == kLastTick && target == kLastTick && !has_due()) {
      for (const int id : after_end_) {
        timers_.emplace(kLastTick, Timer{id, kLastTick, kLastTick});
      }
      after_end_.clear();
    }
  }

  /// Moves to what is due next and not after `target`, or to `target`; true if there was any.
  bool step(Tick target) {
    if (timers_.empty() || timers_.begin()->first > std::max(target, now_)) {
      now_ = std::max(target, now_);
      return false;
    }
    now_ = timers_.begin()->first;
    return true;
  }

  /// Takes `id`, which has expired; false if it was not its turn at the tick to which step() moved.
  bool take(int id) {
    const auto found = find(id);
    if (found == timers_.end() || found->first != now_) {
      return false;
    }
    bool its_turn = true;
    if (!unordered_.contains(id)) {
      for (auto before = timers_.begin(); before != found; ++before) {
        its_turn &=
            unordered_.contains(before->second.id) || !in_order(before->second, found->second);
      }
    }
    cancel(id);
    return its_turn;
  }

 private:
  struct Timer {
    int id;
    Tick scheduled_at;
    Tick wanted;
  };

  // Of two for one tick, does the one that was scheduled first expire first?
  [[nodiscard]] bool in_order(const Timer& a, const Timer& b) const {
    return exact_ || (a.scheduled_at == b.scheduled_at && a.wanted == b.wanted);
  }

  std::multimap<Tick, Timer>::iterator find(int id) {
    return std::find_if(timers_.begin(), timers_.end(),
                        [id](const auto& timer) { return timer.second.id == id; });
  }

  bool exact_;
  Tick now_;
  std::multimap<Tick, Timer> timers_;
  // Those that were postponed.
  std::set<int> unordered_;
  // Scheduled when now_ was kLastTick already.
  std::vector<int> after_end_;
};

/// A wheel of hooks and timers for it, by id. A wheel that names its timers otherwise specialises
/// this, with the same members, and is then tested by everything that takes a WheelLockstep.
template <class Wheel>
class TimersOf {
 public:
  TimersOf(Tick now, int count) : wheel_(std::make_unique<Wheel>(now)) {
    for (int id = 0; id < count; ++id) {
      timers_.push_back(std::make_unique<Timer>(id));
    }
  }

  [[nodiscard]] Wheel& wheel() { return *wheel_; }
  [[nodiscard]] const Wheel& wheel() const { return *wheel_; }
  [[nodiscard]] int count() const { return static_cast<int>(timers_.size()); }
  [[nodiscard]] bool scheduled(int id) const { return at(id).scheduled(); }
  [[nodiscard]] Tick deadline(int id) const { return at(id).deadline(); }

  bool schedule(int id, Tick deadline) { return wheel_->schedule(at(id), deadline); }
  bool reschedule(int id, Tick deadline) { return wheel_->reschedule(at(id), deadline); }
  bool postpone(int id, Tick deadline) { return wheel_->postpone(at(id), deadline); }
  bool cancel(int id) { return wheel_->cancel(at(id)); }

  /// Destroys the timer's object, scheduled or not, and makes a new one.
  void destroy(int id) { timers_[static_cast<std::size_t>(id)] = std::make_unique<Timer>(id); }
  /// Destroys the wheel, and makes a new one.
  void replace_wheel(Tick now) {
    wheel_.reset();
    for (const auto& timer : timers_) {
      if (timer->scheduled()) {
        throw std::logic_error("a dead wheel holds " + std::to_string(timer->id));
      }
    }
    wheel_ = std::make_unique<Wheel>(now);
  }

  /// `sink(int id)`
  template <class Sink>
  AdvanceResult advance(Tick target, const Sink& sink, std::size_t budget) {
    return wheel_->advance(target, [&](WheelHook& hook) { sink(id_of(hook)); }, budget);
  }
  /// `visit(int id)`
  template <class Visit>
  void for_each(const Visit& visit) const {
    wheel_->for_each([&](const WheelHook& hook) { visit(id_of(hook)); });
  }

 private:
  struct Timer : WheelHook {
    explicit Timer(int i) : id(i) {}
    int id;
  };

  static int id_of(const WheelHook& hook) { return static_cast<const Timer&>(hook).id; }
  [[nodiscard]] Timer& at(int id) { return *timers_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Timer& at(int id) const { return *timers_[static_cast<std::size_t>(id)]; }

  std::vector<std::unique_ptr<Timer>> timers_;
  std::unique_ptr<Wheel> wheel_;
};

/// Throws std::logic_error as soon as wheel and model disagree.
template <TimeDriven Wheel>
class WheelLockstep {
 public:
  /// A sink's doing, after the timer `id` has expired.
  using Reaction = std::function<void(int id)>;

  WheelLockstep(Tick now, int timers) : timers_(now, timers), model_(now, kIsExact<Wheel>) {}

  [[nodiscard]] Tick now() const { return model_.now(); }
  [[nodiscard]] std::optional<Tick> next_deadline() const { return model_.next_deadline(); }
  [[nodiscard]] Tick deadline(int id) const { return timers_.deadline(id); }
  [[nodiscard]] bool scheduled(int id) const { return timers_.scheduled(id); }
  [[nodiscard]] int timers() const { return timers_.count(); }
  [[nodiscard]] const Wheel& wheel() const { return timers_.wheel(); }

  void schedule(int id, Tick deadline) {
    if (scheduled(id)) {
      reschedule(id, deadline);
    } else {
      insert(&TimersOf<Wheel>::schedule, &WheelModel::schedule, id, deadline);
    }
  }
  void reschedule(int id, Tick deadline) {
    insert(&TimersOf<Wheel>::reschedule, &WheelModel::reschedule, id, deadline);
  }
  void postpone(int id, Tick deadline) {
    insert(&TimersOf<Wheel>::postpone, &WheelModel::postpone, id, deadline);
  }

  void cancel(int id) {
    const bool was_scheduled = forget(id);
    require(timers_.cancel(id) == was_scheduled, "cancel told a lie about timer ", id);
    require(!scheduled(id), "timer ", id, " is scheduled after cancel");
    check();
  }

  /// Destroys the object that the timer is in, scheduled or not, and puts a new one in its place.
  void destroy(int id) {
    forget(id);
    timers_.destroy(id);
    check();
  }

  void clear() {
    model_.clear();
    fresh_ = false;
    timers_.wheel().clear();
    check();
  }

  /// A new wheel at the same tick; the old one lets go of all.
  void replace_wheel() {
    const Tick now = model_.now();
    model_ = WheelModel(now, kIsExact<Wheel>);
    timers_.replace_wheel(now);
    fresh_ = false;
    check();
  }

  void advance(Tick target, std::size_t budget = kUnlimited, const Reaction& react = {}) {
    if (target < model_.now()) {
      const AdvanceResult result = timers_.advance(
          target, [](int) { throw std::logic_error("time went back"); }, kUnlimited);
      require(result == AdvanceResult{0, model_.has_due()}, "an advance into the past");
      check();
      return;
    }
    model_.begin_advance(target);
    std::size_t expired = 0;
    const AdvanceResult result = timers_.advance(
        target,
        [&](int id) {
          ++expired;
          expire(id, target);
          if (react) {
            react(id);
          }
        },
        budget);
    require(result.expired == expired, "expired ", expired, " but said ", result.expired);
    require(expired <= budget, "the budget of ", budget, " was exceeded: ", expired);
    const bool more = model_.step(target);
    require(result.more == more, "more is ", result.more, " at ", model_.now());
    require(!more || expired == budget, "stopped at ", expired, " of ", budget);
    check();
  }

  /// next_deadline() tidies up, so it is an operation of its own and not part of check().
  void ask() {
    const auto wanted = model_.next_deadline();
    const auto got = wheel().next_deadline();
    require(got == wanted, "next_deadline: ", got.value_or(0), ", not ", wanted.value_or(0));
    fresh_ = true;
  }

  /// Whatever can be observed without disturbing the wheel.
  void check() const {
    require(wheel().now() == model_.now(), "now: ", wheel().now(), ", not ", model_.now());
    require(wheel().size() == model_.size(), "size: ", wheel().size(), ", not ", model_.size());
  }

  /// Every timer where it should be. Costs O(timers).
  void check_all() const {
    std::vector<bool> seen(static_cast<std::size_t>(timers()));
    timers_.for_each([&](int id) {
      require(!seen[static_cast<std::size_t>(id)], "timer ", id, " is in the wheel twice");
      seen[static_cast<std::size_t>(id)] = true;
    });
    for (int id = 0; id < timers(); ++id) {
      require(seen[static_cast<std::size_t>(id)] == scheduled(id), "for_each misses ", id);
    }
    const auto snapshot = wheel().snapshot();
    std::size_t sum = snapshot.due;
    for (const auto& level : snapshot.levels) {
      for (const std::size_t count : level.counts) {
        sum += count;
      }
    }
    require(snapshot.due == model_.due(), "due: ", snapshot.due, ", not ", model_.due());
    require(sum == wheel().size(), "the snapshot counts ", sum, " of ", wheel().size());
  }

 private:
  template <class... Values>
  static void require(bool condition, const Values&... values) {
    if (!condition) {
      std::ostringstream out;
      (out << ... << values);
      throw std::logic_error(out.str());
    }
  }

  // If `id`, which goes away, may be the earliest, the wheel need not know the earliest any more.
  void note_removal(int id) {
    if (scheduled(id) && deadline(id) <= model_.next_deadline()) {
      fresh_ = false;
    }
  }

  bool forget(int id) {
    note_removal(id);
    return model_.cancel(id);
  }

  using InWheel = bool (TimersOf<Wheel>::*)(int id, Tick deadline);
  using InModel = void (WheelModel::*)(int id, Tick deadline, Tick told);

  void insert(InWheel in_wheel, InModel in_model, int id, Tick deadline) {
    note_removal(id);
    const bool said = (timers_.*in_wheel)(id, deadline);
    require(scheduled(id), "timer ", id, " is not scheduled after schedule");
    // Never early; and late no more than the wheel promises.
    const Tick told = timers_.deadline(id);
    const Tick wanted = model_.wanted(deadline);
    require(told >= wanted && told <= latest<Wheel>(model_.now(), wanted), "deadline: ", told,
            ", not ", wanted);
    (model_.*in_model)(id, deadline, told);
    require(said == model_.is_before_all_others(id) || (!said && !fresh_), "said ", said, " for ",
            told);
    check();
  }

  void expire(int id, Tick target) {
    fresh_ = false;
    require(model_.step(target), "expired early: ", deadline(id));
    require(model_.take(id), "timer ", id, " expired out of turn at ", model_.now());
    require(!scheduled(id), "timer ", id, " is still scheduled in its sink");
    require(deadline(id) == model_.now(), "expired at ", model_.now());
    check();
  }

  TimersOf<Wheel> timers_;
  WheelModel model_;
  // next_deadline() was asked since the earliest last went away, so schedule() tells it exactly.
  bool fresh_ = false;
};

}  // namespace carillon
