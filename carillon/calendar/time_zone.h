// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A time zone of the IANA database of the machine (/usr/share/zoneinfo), by Howard Hinnant's date
/// library: what its clocks show, and when they are set.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/calendar/offset_period.h"

namespace carillon::calendar {

/// A zone, for example Europe/Amsterdam. Cheap to copy.
///
/// Threads: immutable; find() from any thread.
/// Errors:  find() says why a name is no zone. "UTC" is known without a database.
/// Cost:    the first find() of a name reads its file, the very first one the list of all names;
///          later ones are a lookup under a lock. period_at is a binary search.
/// Limits:  a changed database is seen after a restart.
class TimeZone {
 public:
  /// UTC.
  TimeZone();
  /// Pre: none; any text may be asked for. Names are case-sensitive, as the database has them.
  [[nodiscard]] static Result<TimeZone> find(std::string_view name);

  [[nodiscard]] const std::string& name() const noexcept;
  /// The period that `at_s`, seconds since 1970 (UTC), lies in.
  [[nodiscard]] OffsetPeriod period_at(std::int64_t at_s) const;

 private:
  struct Zone;
  explicit TimeZone(std::shared_ptr<const Zone> zone) : zone_(std::move(zone)) {}
  static Result<TimeZone> load(const std::string& name);

  std::shared_ptr<const Zone> zone_;  // Never null.
};

}  // namespace carillon::calendar
