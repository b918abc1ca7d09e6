// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads a line of cron; see carillon/calendar/cron.h for the grammar.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "carillon/base/result.h"
#include "carillon/calendar/cron.h"

namespace carillon::calendar {

/// One use: construct, parse(). What is wrong first is what is said.
class CronParser {
 public:
  [[nodiscard]] Result<Cron> parse(std::string_view line);

 private:
  /// What a field may hold.
  struct Field {
    std::string_view name;
    int least = 0;
    int most = 0;
    std::span<const std::string_view> names;  ///< Of the values from `least` on.
  };
  static const Field kSecond, kMinute, kHour, kDay, kMonth, kWeekday;

  bool field(const Field& field, std::string_view text, std::uint64_t& bits);
  bool element(const Field& field, std::string_view text, std::uint64_t& bits);
  bool day_element(std::string_view text, bool& taken);
  bool weekday_element(std::string_view text, bool& taken);
  bool value(const Field& field, std::string_view text, int& value);
  bool number(std::string_view text, int& value);
  bool fail(const Field& field, std::string message);

  Cron cron_;
  std::string problem_;
};

}  // namespace carillon::calendar
