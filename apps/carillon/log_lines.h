// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The server's log as lines on standard error: for people, for machines, for the journal.

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "carillon/base/time.h"
#include "carillon/server/log.h"

namespace carillon::app {

enum class LogFormat {
  kText,     ///< 2026-01-31T12:00:00.000+00:00 info stopped
  kJson,     ///< {"time":"2026-01-31T12:00:00.000Z","level":"info","event":"stopped", ...}
  kJournal,  ///< <6>stopped: the journal knows the time, and reads the level
};
/// That of the option's word; kText for any other.
[[nodiscard]] LogFormat log_format_named(std::string_view word) noexcept;

/// `entry` as one line with a line feed, whatever bytes are in it; `now` is Unix time.
[[nodiscard]] std::string log_line(LogFormat format, const server::LogEntry& entry, WallTime now);

/// Writes lines. A line that cannot be written is lost: there is nowhere else to say so.
///
/// Threads: safe. Each line is one write(), so that lines of several processes do not mix.
class LogLines {
 public:
  /// `level` and `format` are words of the options log-level and log-format.
  LogLines(std::string_view level, std::string_view format) { set(level, format); }
  void set(std::string_view level, std::string_view format) noexcept;
  void write(const server::LogEntry& entry) const noexcept;

 private:
  static constexpr int kNothing = 3;
  std::atomic<int> least_{0};  // Of LogLevel.
  std::atomic<LogFormat> format_{LogFormat::kText};
};

/// A log that writes to `lines`, which it keeps.
[[nodiscard]] server::Log log_to(std::shared_ptr<const LogLines> lines);

}  // namespace carillon::app
