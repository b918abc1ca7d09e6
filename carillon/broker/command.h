// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the broker is asked: the protocol's verbs, decoded and checked for syntax.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "carillon/base/time.h"
#include "carillon/broker/body.h"
#include "carillon/broker/job.h"
#include "carillon/broker/schedule.h"

namespace carillon::broker {

/// One client connection, numbered by the host. Never reused, never 0.
using SessionId = std::uint64_t;

/// Which command of which session a reply answers; opaque to the broker.
struct Ticket {
  SessionId session = 0;
  std::uint64_t slot = 0;
  bool operator==(const Ticket&) const = default;
};

enum class Verb : std::uint8_t {
  kPut,            ///< tube, priority, delay, ttr, body
  kReserve,        ///< timeout (nullopt: for ever), tubes_in_turn; from the watched tubes
  kReserveJob,     ///< id, with_view
  kDelete,         ///< id
  kRelease,        ///< id, priority, delay
  kBury,           ///< id, priority
  kTouch,          ///< id
  kKick,           ///< tube, count
  kKickJob,        ///< id
  kPeek,           ///< id
  kPeekReady,      ///< tube
  kPeekDelayed,    ///< tube
  kPeekBuried,     ///< tube
  kUse,            ///< tube: this session now uses it (and no other); empty: it uses none here
  kWatch,          ///< tube
  kIgnore,         ///< tube; that one tube stays watched is the session's business
  kPauseTube,      ///< tube, delay
  kStatsJob,       ///< id
  kStatsTube,      ///< tube
  kStats,          ///<
  kListTubes,      ///<
  kCancelReserve,  ///< Ends this session's waiting reserve without a reply. No reply itself.
                   ///< PartitionHost: the ticket is that of the reserve.
  kUnreserve,      ///< id: gives back a reservation that the client never saw. No reply.

  // Beyond beanstalk.
  kGet,       ///< id: JobView, and the body if with_body
  kCancel,    ///< id: deletes it, unless it is reserved
  kChange,    ///< id; any of delay (sets_delay), options->due_at_ms, priority (sets_priority)
  kHandOver,  ///< id, to: the reservation is that session's from now on
  kList,      ///< tube (empty: all of this partition), options->list
  kClear,     ///< tube, states: deletes what is in them, but nothing that is reserved
  kSetTube,   ///< tube, options->settings
  kWheel,     ///< what lies where in the wheel

  // Recurring jobs: of options->schedule, the name; kSetSchedule all of it.
  kSetSchedule,     ///< Makes or changes it; its tube cannot change.
  kGetSchedule,     ///<
  kListSchedules,   ///< Those after that name, count of them.
  kDeleteSchedule,  ///< Its instances stay.
  kRunSchedule,     ///< Puts an instance now.
};

/// What a put does if a job of its tube has its key.
enum class OnConflict : std::uint8_t {
  kReturn,   ///< Nothing: kExists with the id of that job.
  kReplace,  ///< Takes its place: that job is erased. kConflict if it is reserved.
  kRefuse,   ///< Nothing: kConflict with the id of that job.
};

/// A position in a listing: everything up to (due, id) has been seen.
struct ListCursor {
  std::int64_t due_ms = std::numeric_limits<std::int64_t>::min();  ///< kDelayed only.
  JobId id = 0;
  bool operator==(const ListCursor&) const = default;
};

/// Which jobs a listing shows: of one state, in order of (due, id) if that is kDelayed, else of id.
///
/// A job that exists and is not changed while the listing goes from page to page is on exactly one
/// page. But a far job with a date lies where it was due when it was put: if the calendar has been
/// set since, it may be on a page too early or too late, and on two if it comes near meanwhile.
struct ListQuery {
  JobState state = JobState::kReady;
  ListCursor after;
  std::size_t limit = 100;  ///< 1 to kMaxPage.
  std::string key_prefix;   ///< Empty: also jobs without a key.
  /// Only what is due in [due_from_ms, due_until_ms) by the calendar. kDelayed only.
  std::int64_t due_from_ms = std::numeric_limits<std::int64_t>::min();
  std::int64_t due_until_ms = std::numeric_limits<std::int64_t>::max();

  static constexpr std::size_t kMaxPage = 1'000;
};

/// What few commands have.
struct CommandOptions {
  /// Names a job, with the tube, where a command's id is 0.
  std::string key;
  /// kChange: when the job is due by the calendar (Unix time in ms).
  std::optional<std::int64_t> due_at_ms;
  ListQuery list;
  TubeSettings settings;
  ScheduleSettings schedule;
};

/// A bit for each state.
using JobStates = std::uint8_t;
[[nodiscard]] constexpr JobStates bit_of(JobState state) noexcept {
  return static_cast<JobStates>(1U << static_cast<unsigned>(state));
}

/// Views are valid during Broker::execute only.
///
/// A command that names a job does so by id, or, if that is 0, by tube and options->key.
struct Command {
  Verb verb = Verb::kStats;
  Ticket ticket;
  JobId id = 0;
  std::uint32_t priority = 0;
  std::uint64_t count = 0;
  Span delay{};
  /// kPut: of the job. kReserve, kReserveJob, kTouch: of this reservation, from now on, instead of
  /// the job's; 0: the job's. A touch that says nothing gives the job's.
  Span ttr{};
  std::optional<Span> timeout;
  std::string_view tube;
  Body body;

  /// kPut; null: none. Its due_at_ms replaces the delay, its key is what on_conflict is about.
  SharedExtras extras;
  /// Null: none.
  std::shared_ptr<const CommandOptions> options;
  /// kHandOver: the session that gets the reservation.
  SessionId to = 0;
  /// kDelete, kRelease, kBury, kTouch: only if this session holds the job and it is its attempt-th
  /// reservation (JobHistory::reserves), else kNotFound. 0: not checked.
  std::uint32_t attempt = 0;
  OnConflict on_conflict = OnConflict::kReturn;
  JobStates states = 0;      ///< kClear.
  bool use_backoff = false;  ///< kRelease: after the job's own backoff, not after `delay`.
  bool with_view = false;    ///< kReserve, kReserveJob: the reply has a JobView.
  /// kReserve: of jobs of one priority, not the oldest of all watched tubes, but the oldest of the
  /// tube that has not been served for longest, so that a long backlog of one tube does not keep
  /// the others waiting. A reserve that waits gets whatever comes first.
  bool tubes_in_turn = false;
  bool with_body = false;      ///< kGet.
  bool sets_delay = false;     ///< kChange.
  bool sets_priority = false;  ///< kChange.
};

}  // namespace carillon::broker
