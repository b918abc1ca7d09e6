// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What an outside observer knows of every job, and the judgement of every reply against it.
///
/// The oracle sees only what clients see: what they asked, what they were answered, when (in true
/// time, which no clock step touches), and when the server was killed. A job is named by the number
/// in its body, so that one whose put was never acknowledged is known too when it turns up.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "carillon/base/time.h"
#include "carillon/broker/job.h"

namespace carillon::sim {

/// Breaks off the run: prints `what`, the seed is printed by the caller.
struct Violation {
  std::string what;
};

using OpNumber = std::uint64_t;

/// Whether the calendar has read a date at any time since it was asked for.
struct DateWatch {
  std::int64_t due_at_ms = 0;
  bool has_come = false;
};

struct KnownJob {
  enum class Presence {
    kMaybe,    ///< Its put was not answered, or answered by an error.
    kPresent,  ///< Its put was acknowledged.
    kGoing,    ///< A delete was sent and not answered, or answered by an error.
    kGone,     ///< A delete was acknowledged.
  };
  Presence presence = Presence::kMaybe;
  broker::JobId id = 0;
  Span put_sent{};
  Span ttr{};
  /// Never deliverable before this, in true time.
  Span earliest{};
  bool buried = false;
  bool delivered = false;
  /// The live reservation, if any: whose, and until when at least.
  std::uint64_t holder = 0;
  Span held_until{};
  std::uint64_t held_since = 0;  ///< The count of deliveries when its holder got it.
  Span gone_at{};                ///< kGone: since then at the latest.
  Span acked_at{};               ///< Its put.
  bool may_be_gone = false;      ///< kMaybe: once acknowledged it is kGoing.
  Span earliest_since{};         ///< When `earliest` was learnt; 0: it is that of the put.
  std::string tube;
  std::string key;
  std::shared_ptr<const DateWatch> date;  ///< Null: none.
};

class Oracle {
 public:
  KnownJob& put_sent(OpNumber op, Span now, Span delay, Span ttr);
  void put_acked(OpNumber op, broker::JobId id, Span now);

  // Beyond beanstalk.

  void put_has(OpNumber op, std::string tube, std::string key,
               std::shared_ptr<const DateWatch> date);
  /// The put was refused for good: a job has its key, or the tube is full.
  void put_refused(OpNumber op, Span now);
  /// A put with a key was acknowledged: no other job has the key any more. `replaced`: it says that
  /// one had.
  void key_taken(OpNumber op, std::uint64_t replaced, Span now);
  /// All jobs of `tube` with `key` (empty: all) may be deleted.
  void may_go(const std::string& tube, const std::string& key);
  /// A change was asked for: the job may be due `earliest` or its date may be another.
  void change_sent(broker::JobId id, Span earliest);
  void changed(broker::JobId id, Span earliest, std::shared_ptr<const DateWatch> date,
               std::uint64_t by_hand, Span now);
  /// Watches for a date from now on.
  std::shared_ptr<const DateWatch> watch(std::int64_t due_at_ms);
  void calendar_reads(std::int64_t calendar_ms);
  /// `id` was shown by a question that was asked at `sent`.
  void shown(broker::JobId id, Span sent);
  /// A whole list of the delayed jobs of `tube`, asked for at `sent`.
  void listed_delayed(const std::string& tube, const std::vector<broker::JobId>& ids, Span sent,
                      Span now, std::uint64_t by_hand);

  /// Judges a delivery to `session` at `now`. `grant_from`: the reservation began then or later.
  KnownJob& reserved(std::uint64_t session, broker::JobId id, std::string_view body, Span now,
                     Span grant_from);
  void delete_sent(broker::JobId id);
  void deleted(broker::JobId id, Span now);
  /// NOT_FOUND for an operation that only fails on a job that `session` does not hold, asked for
  /// when deliveries() was `asked_at`.
  void refused(std::uint64_t session, broker::JobId id, Span now, std::uint64_t asked_at,
               std::string_view verb);
  /// The session gave the job back, or may have: it is held no longer for certain.
  void let_go(broker::JobId id);
  /// `by_hand`: what by_hand() was when it was asked for. If a kick came between the question and
  /// the answer, it may have been before or after.
  void released(broker::JobId id, Span sent, Span delay, std::uint64_t by_hand, Span now);
  void buried(broker::JobId id, std::uint64_t by_hand);
  void touched(std::uint64_t session, broker::JobId id, Span sent);
  /// Some jobs of the world may have been made ready by hand: no job's earliest or burial counts.
  void kicked_any(Span now);
  void kicked(broker::JobId id, Span now);
  void session_closed(std::uint64_t session);
  void crashed();

  /// After everything was drained: nothing acknowledged may be missing.
  void judge_end() const;

  [[nodiscard]] std::uint64_t puts_acked() const { return puts_acked_; }
  [[nodiscard]] std::uint64_t deliveries() const { return deliveries_; }
  /// Counts what may have made jobs ready by hand.
  [[nodiscard]] std::uint64_t by_hand() const { return by_hand_; }

 private:
  KnownJob* by_id(broker::JobId id);

  std::map<OpNumber, KnownJob> jobs_;
  std::unordered_map<broker::JobId, OpNumber> op_of_;
  std::uint64_t puts_acked_ = 0;
  std::uint64_t deliveries_ = 0;
  std::uint64_t by_hand_ = 0;
  std::vector<std::weak_ptr<DateWatch>> watches_;
  std::int64_t calendar_ms_ = 0;
};

/// The body of the job of `op`: its number and a padding that depends on it.
[[nodiscard]] std::string body_of(OpNumber op);

}  // namespace carillon::sim
