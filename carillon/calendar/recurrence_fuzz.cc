// SPDX-License-Identifier: Apache-2.0
// Whatever the text, it is read or refused with a reason; what is read is written so that it reads
// back the same, and its times go forward and are the ones it names.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/check.h"
#include "carillon/calendar/recurrence.h"
#include "carillon/calendar/rfc3339.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace carillon::calendar;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto time = parse_rfc3339(text)) {
    CARILLON_CHECK(parse_rfc3339(format_rfc3339(*time)).value() == *time, std::string(text));
  }
  const auto recurrence = Recurrence::parse(text);
  if (!recurrence) {
    CARILLON_CHECK(!recurrence.error().message.empty(), std::string(text));
    return 0;
  }
  const auto again = Recurrence::parse(recurrence->spec());
  CARILLON_CHECK(again.has_value() && again->spec() == recurrence->spec(), std::string(text));
  for (std::int64_t after :
       {std::int64_t{0}, std::int64_t{1'774'744'200'000}, std::int64_t{4'102'444'800'000}}) {
    for (int i = 0; i < 3; ++i) {
      const auto next = recurrence->next(after);
      CARILLON_CHECK(next == again->next(after), std::string(text));
      if (!next) break;
      CARILLON_CHECK(*next > after, std::string(text));
      CARILLON_CHECK(recurrence->next(*next - 1) == next, std::string(text));
      after = *next;
    }
  }
  return 0;
}
