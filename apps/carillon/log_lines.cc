// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/log_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <exception>
#include <utility>

#include "apps/carillon/json.h"
#include "carillon/base/clock.h"

namespace carillon::app {
namespace {

using server::LogLevel;

std::string_view name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kError: break;
  }
  return "error";
}

/// syslog(3)'s number.
int priority_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kInfo: return 6;
    case LogLevel::kWarning: return 4;
    case LogLevel::kError: break;
  }
  return 3;
}

/// ISO 8601 with milliseconds; local time with its offset, or UTC.
std::string time_of(WallTime now, bool local) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const std::time_t seconds = ms / 1'000;
  std::tm parts{};
  if (local) {
    ::localtime_r(&seconds, &parts);
  } else {
    ::gmtime_r(&seconds, &parts);
  }
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}", parts.tm_year + 1900,
                                 parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min,
                                 parts.tm_sec, ms % 1'000);
  if (!local) return text + "Z";
  const long minutes = parts.tm_gmtoff / 60;
  const long size = minutes < 0 ? -minutes : minutes;
  return text + fmt::format("{}{:02}:{:02}", minutes < 0 ? '-' : '+', size / 60, size % 60);
}

/// Without what would end the line or steer a terminal.
std::string on_one_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string json_line(const server::LogEntry& entry, WallTime now) {
  JsonLine line;
  line.text("time", time_of(now, false)).text("level", name_of(entry.level));
  line.text("event", entry.event).text("message", as_utf8(entry.message));
  for (const server::LogField& field : entry.fields) {
    if (field.is_number) {
      line.raw(field.name, field.value);
    } else {
      line.text(field.name, as_utf8(field.value));
    }
  }
  return line.str();
}

}  // namespace

LogFormat log_format_named(std::string_view word) noexcept {
  if (word == "json") return LogFormat::kJson;
  return word == "journal" ? LogFormat::kJournal : LogFormat::kText;
}

std::string log_line(LogFormat format, const server::LogEntry& entry, WallTime now) {
  switch (format) {
    case LogFormat::kJson: return json_line(entry, now) + '\n';
    case LogFormat::kJournal:
      return fmt::format("<{}>{}\n", priority_of(entry.level), on_one_line(entry.message));
    case LogFormat::kText: break;
  }
  return fmt::format("{} {} {}\n", time_of(now, true), name_of(entry.level),
                     on_one_line(entry.message));
}

void LogLines::set(std::string_view level, std::string_view format) noexcept {
  int least = 0;
  if (level == "warning") least = static_cast<int>(LogLevel::kWarning);
  if (level == "error") least = static_cast<int>(LogLevel::kError);
  if (level == "off") least = kNothing;
  least_.store(least, std::memory_order_relaxed);
  format_.store(log_format_named(format), std::memory_order_relaxed);
}

void LogLines::write(const server::LogEntry& entry) const noexcept {
  if (static_cast<int>(entry.level) < least_.load(std::memory_order_relaxed)) return;
  try {
    const std::string line =
        log_line(format_.load(std::memory_order_relaxed), entry, SystemCalendar().now());
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  } catch (const std::exception&) {
    // No memory for the line.
  }
}

server::Log log_to(std::shared_ptr<const LogLines> lines) {
  return [lines = std::move(lines)](const server::LogEntry& entry) { lines->write(entry); };
}

}  // namespace carillon::app
