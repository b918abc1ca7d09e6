// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Judges schedules by what is durable: each period is accounted for exactly once, and each
/// instance is of a period.
///
///     periods from when it was set until the next  =  instances + missed + skipped + queued

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/broker/schedule.h"
#include "carillon/broker/testing/schedules.h"

namespace carillon::broker::testing {

/// For schedules with the specs of next_multiple(), without an end.
class ScheduleJudge {
 public:
  /// `sees_every_batch`: between two looks no more than one change of a schedule becomes durable.
  explicit ScheduleJudge(bool sees_every_batch) : sees_every_batch_(sees_every_batch) {}

  /// An instance is durable, or a client has seen it. May be said again.
  void saw(const std::string& name, JobId id, std::int64_t period_ms) {
    if (!seen_.insert(id).second) return;
    Known& known = known_[name];
    // (Of the spec before, if it was queued, or became durable together with the new spec.)
    const bool is_period = std::any_of(known.all_periods.begin(), known.all_periods.end(),
                                       [&](std::int64_t every) { return period_ms % every == 0; });
    CARILLON_CHECK(manual_.contains(id) || is_period, "instance ", id, " of ", name, " is of ",
                   period_ms, ", which is no period");
    ++known.instances;
    if (manual_.contains(id)) {
      ++known.by_hand;
      return;
    }
    CARILLON_CHECK(period_ms <= latest_ms_ - known.offset_ms, "instance ", id, " of ", name,
                   " came before its period ", period_ms);
    CARILLON_CHECK(known.periods.insert(period_ms).second, "two instances of ", name,
                   " are of the period ", period_ms);
  }
  /// Instance `id` was asked for by a run.
  void run_by_hand(JobId id) { manual_.insert(id); }
  /// What the calendar reads. Before saw().
  void calendar_reads(std::int64_t calendar_ms) { latest_ms_ = std::max(latest_ms_, calendar_ms); }

  /// The record of a schedule, as it is durable now. Before saw().
  void learn(const ScheduleRecord& record) {
    const ScheduleSettings& settings = record.settings;
    const ScheduleProgress& progress = record.progress;
    Known& known = known_[settings.name];
    if (known.spec != settings.spec) {
      begin(known, record);
    } else if (*progress.due_ms < known.due_ms) {
      CARILLON_CHECK(!sees_every_batch_ ||
                         latest_ms_ - progress.as_of_ms > kSetBack / std::chrono::milliseconds(1),
                     settings.name, " is due anew, although the calendar went back little");
      begin(known, record);
    }
    known.due_ms = *progress.due_ms;
    known.offset_ms = schedule_offset_ms(settings);
    known.may_overlap |= settings.overlap == Overlap::kAllow;
  }

  /// The same, after the instances durable with it, of which so many live. `gap`: since the last
  /// time the calendar may have passed periods unattended.
  void judge(const ScheduleRecord& record, int live, bool gap) {
    const std::string& name = record.settings.name;
    const ScheduleProgress& progress = record.progress;
    Known& known = known_.at(name);
    CARILLON_CHECK(gap || progress.missed == known.missed, name, " has missed ",
                   progress.missed - known.missed, " periods in quiet times");
    known.missed = progress.missed;
    CARILLON_CHECK(live <= 1 || known.may_overlap, live, " instances of ", name, " overlap");
    CARILLON_CHECK(known.instances == progress.runs, name, " says ", progress.runs,
                   " instances; there were ", known.instances);
    const auto passed =
        static_cast<std::uint64_t>((*progress.due_ms - known.first_due_ms) / known.period_ms);
    const std::uint64_t accounted = total(progress) - known.total_before - known.by_hand;
    CARILLON_CHECK(accounted == passed, name, " accounts for ", accounted, " of ", passed,
                   " periods up to ", *progress.due_ms);
  }
  /// It is deleted.
  void forget(const std::string& name) { known_.erase(name); }

  /// Of all schedules there were.
  [[nodiscard]] std::size_t instances() const { return seen_.size(); }

 private:
  struct Known {
    std::string spec;
    std::int64_t period_ms = 1;
    std::int64_t offset_ms = 0;
    std::int64_t first_due_ms = 0;
    std::int64_t due_ms = 0;
    std::uint64_t total_before = 0;
    std::uint64_t instances = 0;
    std::uint64_t by_hand = 0;  ///< Since total_before was taken.
    std::uint64_t missed = 0;
    bool may_overlap = false;
    std::set<std::int64_t> periods;
    std::set<std::int64_t> all_periods;  ///< Of this spec and those before.
  };

  static std::uint64_t total(const ScheduleProgress& progress) {
    return progress.runs + progress.missed + progress.skipped + (progress.queued_ms ? 1 : 0);
  }

  /// It is new, has a new spec, or the calendar was wrong: periods count from here.
  void begin(Known& known, const ScheduleRecord& record) {
    known.spec = record.settings.spec;
    known.period_ms = std::stoll(known.spec);
    known.all_periods.insert(known.period_ms);
    known.periods.clear();
    known.first_due_ms = *record.progress.due_ms;
    known.total_before = total(record.progress);
    known.by_hand = 0;
  }

  const bool sees_every_batch_;
  std::map<std::string, Known> known_;
  std::set<JobId> seen_;
  std::set<JobId> manual_;
  std::int64_t latest_ms_ = 0;
};

}  // namespace carillon::broker::testing
