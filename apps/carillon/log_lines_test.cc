// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/log_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <string>

namespace carillon::app {
namespace {

using server::LogEntry;
using server::LogField;
using server::LogLevel;

constexpr WallTime kNow{std::chrono::milliseconds(1'769'860'800'007)};

std::string line(LogFormat format, LogLevel level, std::string_view message,
                 std::span<const LogField> fields = {}) {
  return log_line(format, {level, "event", message, fields}, kNow);
}

TEST(LogLines, OfTextHaveTheLocalTime) {
  ASSERT_EQ(::setenv("TZ", "XYZ-5:30", 1), 0);
  ::tzset();
  EXPECT_EQ(line(LogFormat::kText, LogLevel::kInfo, "a message"),
            "2026-01-31T17:30:00.007+05:30 info a message\n");
  ASSERT_EQ(::setenv("TZ", "UTC", 1), 0);
  ::tzset();
  EXPECT_EQ(line(LogFormat::kText, LogLevel::kWarning, "m"),
            "2026-01-31T12:00:00.007+00:00 warning m\n");
}

TEST(LogLines, OfJsonHaveStableNamesAndTheFields) {
  const std::array<LogField, 3> fields = {LogField("listen", "127.0.0.1:1"), LogField("near", 12U),
                                          LogField("took_ms", -1)};
  EXPECT_EQ(line(LogFormat::kJson, LogLevel::kError, "it \"is\"", fields),
            R"({"time":"2026-01-31T12:00:00.007Z","level":"error","event":"event",)"
            R"("message":"it \"is\"","listen":"127.0.0.1:1","near":12,"took_ms":-1})"
            "\n");
}

TEST(LogLines, OfTheJournalHaveALevelAndNoTime) {
  EXPECT_EQ(line(LogFormat::kJournal, LogLevel::kInfo, "m"), "<6>m\n");
  EXPECT_EQ(line(LogFormat::kJournal, LogLevel::kWarning, "m"), "<4>m\n");
  EXPECT_EQ(line(LogFormat::kJournal, LogLevel::kError, "m"), "<3>m\n");
}

TEST(LogLines, AreOneLineWhateverTheMessage) {
  const std::string message = "a\nb\x1b[31m\xff";
  EXPECT_EQ(line(LogFormat::kJournal, LogLevel::kInfo, message), "<6>a\\x0ab\\x1b[31m\xff\n");
  EXPECT_NE(line(LogFormat::kJson, LogLevel::kInfo, message)
                .find("\"message\":\"a\\u000ab\\u001b[31m\xEF\xBF\xBD\"}"),
            std::string::npos);
}

}  // namespace
}  // namespace carillon::app
