// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Schedules: jobs that come back. A schedule puts a job, an *instance*, into its tube each time
/// that its spec names.
///
///     spec, "30 2 * * *"     period       due at              instance
///     ──────────────────►  1 May 02:30 ► + place in jitter ► put, with the schedule's new progress
///                          2 May 02:30                        in one batch
///
/// Exactly one instance a period: a batch has both or neither, so wherever the process is killed,
/// the period has its instance, or is still to come. Fewer are put in these cases only:
///
/// - *missed*: several periods have passed before any of them could be attended to, since the
///   server was down, or the calendar was set forward, or the tube was full. The last of them is
///   put (Missed::kOnce); or, if that is more than kMissedAfter late, none (kSkip).
/// - *overlap*: the instance before still waits or runs. It is put all the same (Overlap::kAllow),
///   not at all (kSkip), or when that one ends (kQueue: at most one period waits so). Deleted or
///   buried is ended: one that failed for good does not stop those that follow.
///
/// Periods are times of the calendar and follow it, however it is set. Set back by less than
/// kSetBack, it passes periods again, and they are not put again. Set back by more, it had been
/// wrong: the schedule is due anew as of now.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/broker/body.h"
#include "carillon/broker/extras.h"
#include "carillon/broker/job.h"

namespace carillon::broker {

/// What becomes of periods that nobody could attend to in time.
enum class Missed : std::uint8_t { kOnce = 0, kSkip = 1 };

/// What becomes of a period that comes while the instance before has not ended.
enum class Overlap : std::uint8_t { kAllow = 0, kSkip = 1, kQueue = 2 };

/// What the one who sets a schedule says.
struct ScheduleSettings {
  std::string name;  ///< 1 to kMaxNameBytes.
  std::string tube;
  std::string spec;  ///< When: read by BrokerOptions::next_period only.
  Body body;
  std::uint32_t priority = 0;
  std::int64_t ttr_ms = 60'000;
  /// Of each instance: without key, date and schedule. Null: none.
  SharedExtras extras;
  Missed missed = Missed::kOnce;
  Overlap overlap = Overlap::kAllow;
  /// An instance is put up to this much after its period begins: always as much, by the name. So
  /// that what has one time does not come at once.
  std::int64_t jitter_ms = 0;

  static constexpr std::size_t kMaxNameBytes = 200;
  static constexpr std::int64_t kMaxJitterMs = 86'400'000;
};

/// How far a schedule is. Times are Unix time in ms, by the calendar.
struct ScheduleProgress {
  std::optional<std::int64_t> due_ms;     ///< The next period; nullopt: there is none.
  std::int64_t as_of_ms = 0;              ///< When that was found out.
  std::optional<std::int64_t> queued_ms;  ///< A period that waits for the instance to end.
  std::optional<std::int64_t> last_ms;    ///< The period of the last instance ...
  JobId last_job = 0;                     ///< ... and its id. 0: there was none.
  std::uint64_t runs = 0;                 ///< Instances put.
  std::uint64_t missed = 0;   ///< Periods without one: missed (of one gap up to 1,000 are counted),
  std::uint64_t skipped = 0;  ///< or overlapped.
  bool operator==(const ScheduleProgress&) const = default;
};

struct ScheduleRecord {
  ScheduleSettings settings;
  ScheduleProgress progress;
};

[[nodiscard]] inline bool operator==(const ScheduleSettings& a, const ScheduleSettings& b) {
  return a.name == b.name && a.tube == b.tube && a.spec == b.spec &&
         a.body.view() == b.body.view() && a.priority == b.priority && a.ttr_ms == b.ttr_ms &&
         same_extras(a.extras, b.extras) && a.missed == b.missed && a.overlap == b.overlap &&
         a.jitter_ms == b.jitter_ms;
}
[[nodiscard]] inline bool operator==(const ScheduleRecord& a, const ScheduleRecord& b) {
  return a.settings == b.settings && a.progress == b.progress;
}

/// What a command about a schedule is answered.
struct ScheduleView {
  ScheduleRecord record;
  std::optional<std::int64_t> next_at_ms;  ///< When the next instance is put: period and jitter.
};

/// Schedules in order of their names.
struct SchedulePage {
  std::vector<ScheduleView> schedules;
  bool more = false;  ///< There are some after the last of these.

  static constexpr std::size_t kMaxPage = 1'000;
};

/// A period that is attended to later than this counts as missed.
inline constexpr Span kMissedAfter = std::chrono::minutes(1);
/// A calendar that goes back by more was wrong before; as in Vixie's cron.
inline constexpr Span kSetBack = std::chrono::hours(3);

/// How much after a period begins the instance of the schedule with this name is put.
[[nodiscard]] std::int64_t schedule_offset_ms(const ScheduleSettings& settings);

}  // namespace carillon::broker
