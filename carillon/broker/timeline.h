// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The time that jobs live by: calendar time that does not step.
///
/// A due time must survive a restart, so it is stored as calendar time; but a relative delay counts
/// elapsed time, whatever an administrator or NTP does to the calendar meanwhile. A timeline is
/// therefore a monotonic clock (one that counts suspended time) plus a fixed offset, chosen when
/// the partition opens and then left alone:
///
/// - opened in the same boot as last time: the same offset, so that a clock step between stop and
///   start moves nothing either;
/// - opened after a reboot: the calendar's time now, or the time last reached if the calendar is
///   behind that (time never goes back, so nothing becomes ready before its time).

#include <string>

#include "carillon/base/clock.h"
#include "carillon/base/time.h"
#include "carillon/broker/job.h"

namespace carillon::broker {

/// Threads: safe; immutable but for the clock it reads. Lifetime: the clock must outlive it.
class Timeline {
 public:
  /// `stored`: the anchor read from the folder (default: none); `latest`: the time last known to
  /// have been reached.
  Timeline(const Clock& clock, WallTime calendar_now, std::string boot_id, const TimeAnchor& stored,
           WallTime latest);

  [[nodiscard]] WallTime now() const noexcept;
  /// The instant of the clock at which the timeline reaches `point`.
  [[nodiscard]] Instant instant_of(WallTime point) const noexcept;
  /// To be stored, so that the next opening in this boot finds it.
  [[nodiscard]] const TimeAnchor& anchor() const noexcept { return anchor_; }

 private:
  const Clock& clock_;
  TimeAnchor anchor_;
};

using carillon::read_boot_id;

}  // namespace carillon::broker
