// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/beanstalk/encoder.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>

#include "carillon/base/check.h"

namespace carillon::protocol::beanstalk {
namespace {

using broker::Answer;
using broker::Reply;

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.append(digits, end);
}

/// "WORD id size\r\n"; the body follows.
void append_job_head(std::string_view word, const Reply& reply, std::string& out) {
  out += word;
  append_number(out, reply.id);
  out += ' ';
  append_number(out, reply.body.size());
  out += "\r\n";
}

/// "OK size\r\n", the document and CRLF.
void append_document(std::string_view document, std::string& out) {
  out += "OK ";
  append_number(out, document.size());
  out += "\r\n";
  out += document;
  out += "\r\n";
}

/// A YAML document of "key: value" lines.
class Document {
 public:
  template <class Value>
  Document& plain(std::string_view key, const Value& value) {
    fmt::format_to(std::back_inserter(text_), "{}: {}\n", key, value);
    return *this;
  }
  Document& quoted(std::string_view key, std::string_view value) {
    text_ += key;
    text_ += ": \"";
    for (const char c : value) {
      if (c == '"' || c == '\\') text_ += '\\';
      text_ += c;
    }
    text_ += "\"\n";
    return *this;
  }
  Document& microseconds(std::string_view key, std::int64_t us) {
    fmt::format_to(std::back_inserter(text_), "{}: {}.{:06}\n", key, us / 1'000'000,
                   us % 1'000'000);
    return *this;
  }
  Document& counts(const broker::JobCounts& jobs) {
    return plain("current-jobs-urgent", jobs.urgent)
        .plain("current-jobs-ready", jobs.ready)
        .plain("current-jobs-reserved", jobs.reserved)
        .plain("current-jobs-delayed", jobs.delayed)
        .plain("current-jobs-buried", jobs.buried);
  }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }

 private:
  std::string text_ = "---\n";
};

constexpr std::int64_t whole_seconds(std::int64_t ms) noexcept { return ms / 1000; }

/// Of what is left of a time. beanstalkd truncates, so a second just begun counts as 0 left. Ours
/// is up to 2 ms more than the truth (the deadline is rounded up to a tick, the present down):
/// without taking those off it would show the full second.
constexpr std::int64_t whole_seconds_left(std::int64_t ms) noexcept {
  return ms > 2 ? (ms - 2) / 1000 : 0;
}

std::string_view state_word(broker::JobState state) noexcept {
  switch (state) {
    case broker::JobState::kReady: return "ready";
    case broker::JobState::kDelayed: return "delayed";
    case broker::JobState::kBuried: return "buried";
    case broker::JobState::kReserved: return "reserved";
  }
  return "invalid";
}

void encode_job(const broker::JobStats& stats, std::string& out) {
  Document document;
  document.plain("id", stats.id)
      .quoted("tube", stats.tube)
      .plain("state", state_word(stats.state))
      .plain("pri", stats.priority)
      .plain("age", whole_seconds(stats.age_ms))
      .plain("delay", whole_seconds(stats.delay_ms))
      .plain("ttr", whole_seconds(stats.ttr_ms))
      .plain("time-left", whole_seconds_left(stats.time_left_ms))
      .plain("file", 0)
      .plain("reserves", stats.history.reserves)
      .plain("timeouts", stats.history.timeouts)
      .plain("releases", stats.history.releases)
      .plain("buries", stats.history.buries)
      .plain("kicks", stats.history.kicks);
  append_document(document.text(), out);
}

void encode_tube(const broker::TubeStats& stats, std::string& out) {
  Document document;
  document.quoted("name", stats.name)
      .counts(stats.jobs)
      .plain("total-jobs", stats.total_jobs)
      .plain("current-using", stats.using_count)
      .plain("current-watching", stats.watching_count)
      .plain("current-waiting", stats.waiting_count)
      .plain("cmd-delete", stats.delete_count)
      .plain("cmd-pause-tube", stats.pause_count)
      .plain("pause", whole_seconds(stats.pause_ms))
      .plain("pause-time-left", whole_seconds_left(stats.pause_left_ms));
  append_document(document.text(), out);
}

void encode_detail(const Reply& reply, std::string& out) {
  CARILLON_CHECK(reply.detail != nullptr, "kStats without its detail");
  if (const auto* job = std::get_if<broker::JobStats>(reply.detail.get())) {
    encode_job(*job, out);
  } else if (const auto* tube = std::get_if<broker::TubeStats>(reply.detail.get())) {
    encode_tube(*tube, out);
  } else if (const auto* names = std::get_if<broker::TubeNames>(reply.detail.get())) {
    encode(*names, out);
  } else {
    CARILLON_CHECK(false, "the statistics of one partition are not an answer");
  }
}

/// The commands in the order in which `stats` lists them.
struct CountedCommand {
  CommandName name;
  std::string_view key;
};
constexpr CountedCommand kCountedCommands[] = {
    {CommandName::kPut, "cmd-put"},
    {CommandName::kPeek, "cmd-peek"},
    {CommandName::kPeekReady, "cmd-peek-ready"},
    {CommandName::kPeekDelayed, "cmd-peek-delayed"},
    {CommandName::kPeekBuried, "cmd-peek-buried"},
    {CommandName::kReserve, "cmd-reserve"},
    {CommandName::kReserveWithTimeout, "cmd-reserve-with-timeout"},
    {CommandName::kDelete, "cmd-delete"},
    {CommandName::kRelease, "cmd-release"},
    {CommandName::kUse, "cmd-use"},
    {CommandName::kWatch, "cmd-watch"},
    {CommandName::kIgnore, "cmd-ignore"},
    {CommandName::kBury, "cmd-bury"},
    {CommandName::kKick, "cmd-kick"},
    {CommandName::kTouch, "cmd-touch"},
    {CommandName::kStats, "cmd-stats"},
    {CommandName::kStatsJob, "cmd-stats-job"},
    {CommandName::kStatsTube, "cmd-stats-tube"},
    {CommandName::kListTubes, "cmd-list-tubes"},
    {CommandName::kListTubeUsed, "cmd-list-tube-used"},
    {CommandName::kListTubesWatched, "cmd-list-tubes-watched"},
    {CommandName::kPauseTube, "cmd-pause-tube"},
};

}  // namespace

bool encode(const Reply& reply, std::string& out) {
  switch (reply.answer) {
    case Answer::kInserted:
      out += "INSERTED ";
      append_number(out, reply.id);
      out += "\r\n";
      return false;
    case Answer::kReserved: append_job_head("RESERVED ", reply, out); return true;
    case Answer::kFound: append_job_head("FOUND ", reply, out); return true;
    case Answer::kDeadlineSoon: out += "DEADLINE_SOON\r\n"; return false;
    case Answer::kTimedOut: out += "TIMED_OUT\r\n"; return false;
    case Answer::kDeleted: out += "DELETED\r\n"; return false;
    case Answer::kReleased: out += "RELEASED\r\n"; return false;
    case Answer::kBuried: out += "BURIED\r\n"; return false;
    case Answer::kTouched: out += "TOUCHED\r\n"; return false;
    case Answer::kKicked:
      out += "KICKED ";
      append_number(out, reply.count);
      out += "\r\n";
      return false;
    case Answer::kJobKicked: out += "KICKED\r\n"; return false;
    case Answer::kPaused: out += "PAUSED\r\n"; return false;
    case Answer::kStats: encode_detail(reply, out); return false;
    case Answer::kNotFound: out += "NOT_FOUND\r\n"; return false;
    case Answer::kTubeFull:
    case Answer::kOutOfMemory: out += "OUT_OF_MEMORY\r\n"; return false;
    case Answer::kInternalError: out += "INTERNAL_ERROR\r\n"; return false;
    // Answers to commands that beanstalk does not have; or that the session answers by itself.
    case Answer::kExists:
    case Answer::kConflict:
    case Answer::kChanged:
    case Answer::kHandedOver:
    case Answer::kListed:
    case Answer::kCleared:
    case Answer::kTubeSet:
    case Answer::kScheduleSet:
    case Answer::kNeverDue:
    case Answer::kUsing:
    case Answer::kWatching: break;
  }
  CARILLON_CHECK(false, "answer ", static_cast<int>(reply.answer), " has words of its session");
}

void encode(Refusal refusal, std::string& out) {
  switch (refusal) {
    case Refusal::kBadFormat: out += "BAD_FORMAT\r\n"; return;
    case Refusal::kOtherProtocol:
    case Refusal::kUnknownCommand: out += "UNKNOWN_COMMAND\r\n"; return;
    case Refusal::kExpectedCrlf: out += "EXPECTED_CRLF\r\n"; return;
    case Refusal::kJobTooBig: out += "JOB_TOO_BIG\r\n"; return;
    case Refusal::kOutOfMemory: out += "OUT_OF_MEMORY\r\n"; return;
  }
}

void encode(const ServerStats& stats, std::string& out) {
  Document document;
  document.counts(stats.jobs);
  for (const CountedCommand& command : kCountedCommands) {
    document.plain(command.key, stats.commands[static_cast<std::size_t>(command.name)]);
  }
  document.plain("job-timeouts", stats.job_timeouts)
      .plain("total-jobs", stats.total_jobs)
      .plain("max-job-size", stats.max_job_size)
      .plain("current-tubes", stats.current_tubes)
      .plain("current-connections", stats.current_connections)
      .plain("current-producers", stats.current_producers)
      .plain("current-workers", stats.current_workers)
      .plain("current-waiting", stats.current_waiting)
      .plain("total-connections", stats.total_connections)
      .plain("pid", stats.pid)
      .quoted("version", stats.version)
      .microseconds("rusage-utime", stats.user_time_us)
      .microseconds("rusage-stime", stats.system_time_us)
      .plain("uptime", stats.uptime_s)
      .plain("binlog-oldest-index", 0)
      .plain("binlog-current-index", 0)
      .plain("binlog-records-migrated", 0)
      .plain("binlog-records-written", stats.binlog_records_written)
      .plain("binlog-max-size", 0)
      .plain("draining", stats.draining)
      .plain("id", stats.id)
      .quoted("hostname", stats.hostname)
      .quoted("os", stats.os)
      .quoted("platform", stats.platform)
      .plain("carillon-puts", stats.puts)
      .plain("carillon-reserves", stats.reserves)
      .plain("carillon-deletes", stats.deletes)
      .plain("carillon-http-connections", stats.http_connections)
      .plain("carillon-http-waiting", stats.http_waiting);
  append_document(document.text(), out);
}

void encode(const broker::TubeNames& names, std::string& out) {
  std::string document = "---\n";
  for (const std::string& name : names) {
    document += "- ";
    document += name;
    document += '\n';
  }
  append_document(document, out);
}

void encode_using(std::string_view tube, std::string& out) {
  out += "USING ";
  out += tube;
  out += "\r\n";
}

void encode_watching(std::uint64_t count, std::string& out) {
  out += "WATCHING ";
  append_number(out, count);
  out += "\r\n";
}

void encode_not_ignored(std::string& out) { out += "NOT_IGNORED\r\n"; }

void encode_draining(std::string& out) { out += "DRAINING\r\n"; }

void encode_refused_connection(std::string& out) { out += "OUT_OF_MEMORY\r\n"; }

}  // namespace carillon::protocol::beanstalk
