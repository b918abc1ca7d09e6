// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests: `WheelModel`, what a wheel of exact deadlines is to do, told with a std::multimap;
/// and `WheelLockstep`, a wheel and the model doing the same operations, compared after each.

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

#include "carillon/wheel/wheel_like.h"

namespace carillon {

/// Timers are named by a small id. A multimap inserts behind equal keys, so it is first in, first
/// out within a tick.
class WheelModel {
 public:
  explicit WheelModel(Tick now) : now_(now) {}

  [[nodiscard]] Tick now() const { return now_; }
  [[nodiscard]] std::size_t size() const { return timers_.size() + after_end_.size(); }
  [[nodiscard]] std::optional<Tick> next_deadline() const {
    if (!timers_.empty()) {
      return timers_.begin()->first;
    }
    return after_end_.empty() ? std::nullopt : std::optional(kLastTick);
  }

  /// The deadline that it is given.
  Tick schedule(int id, Tick deadline) {
    if (now_ == kLastTick) {
      after_end_.push_back(id);
      return kLastTick;
    }
    deadline = std::max(deadline, now_ + 1);
    timers_.emplace(deadline, id);
    return deadline;
  }

  /// As cancel and schedule; but unless `deadline` is earlier, or it is due already, the timer
  /// loses its place in the order of its tick.
  Tick postpone(int id, Tick deadline) {
    const auto at = find(id);
    const bool keeps_order = at == timers_.end() || deadline < at->first || at->first <= now_;
    cancel(id);
    deadline = schedule(id, deadline);
    if (!keeps_order) {
      unordered_.insert(id);
    }
    return deadline;
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
        timers_.emplace(kLastTick, id);
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
        its_turn &= unordered_.contains(before->second);
      }
    }
    cancel(id);
    return its_turn;
  }

 private:
  std::multimap<Tick, int>::iterator find(int id) {
    return std::find_if(timers_.begin(), timers_.end(),
                        [id](const auto& timer) { return timer.second == id; });
  }

  Tick now_;
  std::multimap<Tick, int> timers_;
  // Those that were postponed.
  std::set<int> unordered_;
  // Scheduled when now_ was kLastTick already.
  std::vector<int> after_end_;
};

/// Throws std::logic_error as soon as wheel and model disagree.
template <WheelLike Wheel>
class WheelLockstep {
 public:
  /// A sink's doing, after the timer `id` has expired.
  using Reaction = std::function<void(int id)>;

  WheelLockstep(Tick now, int timers) : wheel_(std::make_unique<Wheel>(now)), model_(now) {
    for (int id = 0; id < timers; ++id) {
      timers_.push_back(std::make_unique<Timer>(id));
    }
  }

  [[nodiscard]] Tick now() const { return model_.now(); }
  [[nodiscard]] std::optional<Tick> next_deadline() const { return model_.next_deadline(); }
  [[nodiscard]] Tick deadline(int id) const { return timer(id).deadline(); }
  [[nodiscard]] bool scheduled(int id) const { return timer(id).scheduled(); }
  [[nodiscard]] int timers() const { return static_cast<int>(timers_.size()); }
  [[nodiscard]] const Wheel& wheel() const { return *wheel_; }

  void schedule(int id, Tick deadline) {
    if (timer(id).scheduled()) {
      reschedule(id, deadline);
    } else {
      insert(
          id, [&] { return model_.schedule(id, deadline); },
          [&] { return wheel_->schedule(timer(id), deadline); });
    }
  }

  void reschedule(int id, Tick deadline) {
    insert(
        id,
        [&] {
          model_.cancel(id);
          return model_.schedule(id, deadline);
        },
        [&] { return wheel_->reschedule(timer(id), deadline); });
  }

  void postpone(int id, Tick deadline)
    requires requires(Wheel& wheel, WheelHook& hook) { wheel.postpone(hook, Tick{0}); }
  {
    insert(
        id, [&] { return model_.postpone(id, deadline); },
        [&] { return wheel_->postpone(timer(id), deadline); });
  }

  void cancel(int id) {
    const bool was_scheduled = forget(id);
    require(wheel_->cancel(timer(id)) == was_scheduled, "cancel told a lie about timer ", id);
    require(!timer(id).scheduled(), "timer ", id, " is scheduled after cancel");
    check();
  }

  /// Destroys the object that the hook is in, scheduled or not, and puts a new one in its place.
  void destroy(int id) {
    forget(id);
    timers_[static_cast<std::size_t>(id)] = std::make_unique<Timer>(id);
    check();
  }

  void clear() {
    model_.clear();
    fresh_ = false;
    wheel_->clear();
    check();
  }

  /// A new wheel at the same tick; the old one lets go of all.
  void replace_wheel() {
    const Tick now = model_.now();
    model_ = WheelModel(now);
    wheel_.reset();
    for (const auto& t : timers_) {
      require(!t->scheduled(), "the dead wheel holds ", t->id);
    }
    wheel_ = std::make_unique<Wheel>(now);
    fresh_ = false;
    check();
  }

  void advance(Tick target, std::size_t budget = kUnlimited, const Reaction& react = {}) {
    if (target < model_.now()) {
      const AdvanceResult result =
          wheel_->advance(target, [](WheelHook&) { throw std::logic_error("time went back"); });
      require(result == AdvanceResult{0, model_.has_due()}, "an advance into the past");
      check();
      return;
    }
    model_.begin_advance(target);
    std::size_t expired = 0;
    const AdvanceResult result = wheel_->advance(
        target,
        [&](WheelHook& hook) {
          ++expired;
          expire(static_cast<Timer&>(hook), target);
          if (react) {
            react(static_cast<Timer&>(hook).id);
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
    const auto got = wheel_->next_deadline();
    require(got == wanted, "next_deadline: ", got.value_or(0), ", not ", wanted.value_or(0));
    fresh_ = true;
  }

  /// Whatever can be observed without disturbing the wheel.
  void check() const {
    require(wheel_->now() == model_.now(), "now: ", wheel_->now(), ", not ", model_.now());
    require(wheel_->size() == model_.size(), "size: ", wheel_->size(), ", not ", model_.size());
  }

  /// Every timer where it should be. Costs O(timers).
  void check_all() const {
    std::vector<bool> seen(timers_.size());
    wheel_->for_each([&](const WheelHook& hook) {
      const int id = static_cast<const Timer&>(hook).id;
      require(!seen[static_cast<std::size_t>(id)], "timer ", id, " is in the wheel twice");
      seen[static_cast<std::size_t>(id)] = true;
    });
    for (const auto& t : timers_) {
      require(seen[static_cast<std::size_t>(t->id)] == t->scheduled(), "for_each misses ", t->id);
    }
    const auto snapshot = wheel_->snapshot();
    std::size_t sum = snapshot.due;
    for (const auto& level : snapshot.levels) {
      for (const std::size_t count : level.counts) {
        sum += count;
      }
    }
    require(snapshot.due == model_.due(), "due: ", snapshot.due, ", not ", model_.due());
    require(sum == wheel_->size(), "the snapshot counts ", sum, " of ", wheel_->size());
  }

 private:
  struct Timer : WheelHook {
    explicit Timer(int i) : id(i) {}
    int id;
  };

  template <class... Values>
  static void require(bool condition, const Values&... values) {
    if (!condition) {
      std::ostringstream out;
      (out << ... << values);
      throw std::logic_error(out.str());
    }
  }

  [[nodiscard]] Timer& timer(int id) { return *timers_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const Timer& timer(int id) const { return *timers_[static_cast<std::size_t>(id)]; }

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

  template <class InModel, class InWheel>
  void insert(int id, const InModel& in_model, const InWheel& in_wheel) {
    note_removal(id);
    const Tick wanted = in_model();
    const bool told = in_wheel();
    require(scheduled(id), "timer ", id, " is not scheduled after schedule");
    require(deadline(id) == wanted, "deadline: ", deadline(id), ", not ", wanted);
    require(told == model_.is_before_all_others(id) || (!told && !fresh_), "said ", told, " for ",
            wanted);
    check();
  }

  void expire(Timer& expired, Tick target) {
    fresh_ = false;
    require(model_.step(target), "expired early: ", expired.deadline());
    const int id = expired.id;
    require(model_.take(id), "timer ", id, " expired out of turn at ", model_.now());
    require(!expired.scheduled(), "timer ", id, " is still scheduled in its sink");
    require(expired.deadline() == model_.now(), "expired at ", model_.now());
    check();
  }

  std::vector<std::unique_ptr<Timer>> timers_;
  std::unique_ptr<Wheel> wheel_;
  WheelModel model_;
  // next_deadline() was asked since the earliest last went away, so schedule() tells it exactly.
  bool fresh_ = false;
};

}  // namespace carillon
