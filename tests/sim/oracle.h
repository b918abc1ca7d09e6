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
#include <string>
#include <unordered_map>

#include "carillon/base/time.h"
#include "carillon/broker/job.h"

namespace carillon::sim {

/// Breaks off the run: prints `what`, the seed is printed by the caller.
struct Violation {
  std::string what;
};

using OpNumber = std::uint64_t;

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
};

class Oracle {
 public:
  KnownJob& put_sent(OpNumber op, Span now, Span delay, Span ttr);
  void put_acked(OpNumber op, broker::JobId id);

  /// Judges a delivery to `session` at `now`. `grant_from`: the reservation began then or later.
  KnownJob& reserved(std::uint64_t session, broker::JobId id, std::string_view body, Span now,
                     Span grant_from);
  void delete_sent(broker::JobId id);
  void deleted(broker::JobId id);
  /// NOT_FOUND for an operation that only fails on a job that `session` does not hold, asked for
  /// when deliveries() was `asked_at`.
  void refused(std::uint64_t session, broker::JobId id, Span now, std::uint64_t asked_at,
               std::string_view verb);
  /// The session gave the job back, or may have: it is held no longer for certain.
  void let_go(broker::JobId id);
  /// `by_hand`: what by_hand() was when it was asked for. If a kick came between the question and
  /// the answer, it may have been before or after.
  void released(broker::JobId id, Span sent, Span delay, std::uint64_t by_hand);
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
};

/// The body of the job of `op`: its number and a padding that depends on it.
[[nodiscard]] std::string body_of(OpNumber op);

}  // namespace carillon::sim
