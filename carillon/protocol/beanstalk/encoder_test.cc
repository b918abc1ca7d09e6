// SPDX-License-Identifier: Apache-2.0
#include "carillon/protocol/beanstalk/encoder.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

namespace carillon::protocol::beanstalk {
namespace {

using broker::Answer;
using broker::Reply;

/// The bytes of an answer, body included.
std::string bytes_of(const Reply& reply) {
  std::string out;
  if (encode(reply, out)) out.append(reply.body.view()).append("\r\n");
  return out;
}

Reply answer(Answer word) {
  Reply reply;
  reply.answer = word;
  return reply;
}

template <class Detail>
Reply detailed(Detail detail) {
  Reply reply = answer(Answer::kStats);
  using Details = typename decltype(reply.detail)::element_type;
  reply.detail = std::make_unique<Details>(std::move(detail));
  return reply;
}

std::string document(const std::string& text) {
  return "OK " + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

TEST(BeanstalkEncoder, SpellsTheWords) {
  EXPECT_EQ(bytes_of(answer(Answer::kDeadlineSoon)), "DEADLINE_SOON\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kTimedOut)), "TIMED_OUT\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kDeleted)), "DELETED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kReleased)), "RELEASED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kBuried)), "BURIED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kTouched)), "TOUCHED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kJobKicked)), "KICKED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kPaused)), "PAUSED\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kNotFound)), "NOT_FOUND\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kOutOfMemory)), "OUT_OF_MEMORY\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kTubeFull)), "OUT_OF_MEMORY\r\n");
  EXPECT_EQ(bytes_of(answer(Answer::kInternalError)), "INTERNAL_ERROR\r\n");
}

TEST(BeanstalkEncoder, WritesIdsCountsAndBodies) {
  Reply inserted = answer(Answer::kInserted);
  inserted.id = 18'446'744'073'709'551'615U;
  EXPECT_EQ(bytes_of(inserted), "INSERTED 18446744073709551615\r\n");
  Reply kicked = answer(Answer::kKicked);
  kicked.count = 12;
  EXPECT_EQ(bytes_of(kicked), "KICKED 12\r\n");
  Reply reserved = answer(Answer::kReserved);
  reserved.id = 7;
  reserved.body = broker::Body("a\r\nb");
  EXPECT_EQ(bytes_of(reserved), "RESERVED 7 4\r\na\r\nb\r\n");
  Reply found = answer(Answer::kFound);
  found.id = 7;
  found.body = broker::Body("");
  EXPECT_EQ(bytes_of(found), "FOUND 7 0\r\n\r\n");
}

TEST(BeanstalkEncoder, WritesWhatTheSessionSays) {
  std::string out;
  encode_using("a", out);
  encode_watching(3, out);
  encode_not_ignored(out);
  encode_draining(out);
  encode(Refusal::kBadFormat, out);
  encode(Refusal::kUnknownCommand, out);
  encode(Refusal::kExpectedCrlf, out);
  encode(Refusal::kJobTooBig, out);
  encode(Refusal::kOutOfMemory, out);
  EXPECT_EQ(out,
            "USING a\r\nWATCHING 3\r\nNOT_IGNORED\r\nDRAINING\r\nBAD_FORMAT\r\nUNKNOWN_COMMAND\r\n"
            "EXPECTED_CRLF\r\nJOB_TOO_BIG\r\nOUT_OF_MEMORY\r\n");
}

TEST(BeanstalkEncoder, JobStatsAreByteForByteThoseOfBeanstalkd) {
  broker::JobStats stats;
  stats.id = 3;
  stats.tube = "orders";
  stats.state = broker::JobState::kDelayed;
  stats.priority = 4'294'967'295;
  stats.age_ms = 1'999;
  stats.delay_ms = 60'000;
  stats.ttr_ms = 120'500;
  stats.time_left_ms = 58'900;
  stats.history = {1, 2, 3, 4, 5};
  EXPECT_EQ(bytes_of(detailed(stats)),
            document("---\nid: 3\ntube: \"orders\"\nstate: delayed\npri: 4294967295\nage: 1\n"
                     "delay: 60\nttr: 120\ntime-left: 58\nfile: 0\nreserves: 1\ntimeouts: 2\n"
                     "releases: 3\nburies: 4\nkicks: 5\n"));
}

TEST(BeanstalkEncoder, StatesAreWords) {
  const std::pair<broker::JobState, std::string> words[] = {
      {broker::JobState::kReady, "ready"},
      {broker::JobState::kDelayed, "delayed"},
      {broker::JobState::kReserved, "reserved"},
      {broker::JobState::kBuried, "buried"}};
  for (const auto& [state, word] : words) {
    broker::JobStats stats;
    stats.state = state;
    EXPECT_NE(bytes_of(detailed(stats)).find("state: " + word + "\n"), std::string::npos);
  }
}

TEST(BeanstalkEncoder, TubeStatsAreByteForByteThoseOfBeanstalkd) {
  broker::TubeStats stats;
  stats.name = "default";
  stats.jobs = {1, 2, 3, 4, 5};
  stats.total_jobs = 6;
  stats.using_count = 7;
  stats.watching_count = 8;
  stats.waiting_count = 9;
  stats.delete_count = 10;
  stats.pause_count = 11;
  stats.pause_ms = 12'999;
  stats.pause_left_ms = 3'500;
  EXPECT_EQ(bytes_of(detailed(stats)),
            document("---\nname: \"default\"\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\n"
                     "current-jobs-reserved: 3\ncurrent-jobs-delayed: 4\ncurrent-jobs-buried: 5\n"
                     "total-jobs: 6\ncurrent-using: 7\ncurrent-watching: 8\ncurrent-waiting: 9\n"
                     "cmd-delete: 10\ncmd-pause-tube: 11\npause: 12\npause-time-left: 3\n"));
}

TEST(BeanstalkEncoder, TimeLeftIsThatOfBeanstalkdJustAfterTheTimeWasSet) {
  // 2 s from 0.9 ms into a tick: the deadline is up to 2001 ms after the tick.
  for (const std::int64_t left : {2000, 2001}) {
    broker::JobStats stats;
    stats.time_left_ms = left;
    EXPECT_NE(bytes_of(detailed(stats)).find("time-left: 1\n"), std::string::npos) << left;
  }
  broker::JobStats over;
  EXPECT_NE(bytes_of(detailed(over)).find("time-left: 0\n"), std::string::npos);
}

TEST(BeanstalkEncoder, TubesAreAnUnquotedList) {
  EXPECT_EQ(bytes_of(detailed(broker::TubeNames{"default", "x;y"})),
            "OK 20\r\n---\n- default\n- x;y\n\r\n");
}

TEST(BeanstalkEncoder, ServerStatsAreByteForByteThoseOfBeanstalkdAndBehindThemThoseOfCarillon) {
  ServerStats stats;
  stats.jobs = {1, 2, 3, 4, 5};
  // Distinct, so that a swapped line shows.
  for (std::size_t i = 0; i < stats.commands.size(); ++i) stats.commands[i] = 100 + i;
  stats.job_timeouts = 6;
  stats.total_jobs = 7;
  stats.max_job_size = 65'535;
  stats.current_tubes = 8;
  stats.current_connections = 9;
  stats.current_producers = 10;
  stats.current_workers = 11;
  stats.current_waiting = 12;
  stats.total_connections = 13;
  stats.pid = 14;
  stats.version = "1.2.3";
  stats.user_time_us = 1'000'002;
  stats.system_time_us = 999'999;
  stats.uptime_s = 15;
  stats.binlog_records_written = 16;
  stats.draining = true;
  stats.id = "00ff";
  stats.hostname = "h\"\\";
  stats.os = "#1 SMP";
  stats.platform = "x86_64";
  stats.puts = 17;
  stats.reserves = 18;
  stats.deletes = 19;
  stats.http_connections = 20;
  stats.http_waiting = 21;
  std::string out;
  encode(stats, out);
  EXPECT_EQ(
      out,
      document(
          "---\ncurrent-jobs-urgent: 1\ncurrent-jobs-ready: 2\ncurrent-jobs-reserved: 3\n"
          "current-jobs-delayed: 4\ncurrent-jobs-buried: 5\ncmd-put: 101\ncmd-peek: 102\n"
          "cmd-peek-ready: 103\ncmd-peek-delayed: 104\ncmd-peek-buried: 105\ncmd-reserve: 106\n"
          "cmd-reserve-with-timeout: 107\ncmd-delete: 109\ncmd-release: 110\ncmd-use: 118\n"
          "cmd-watch: 119\ncmd-ignore: 120\ncmd-bury: 111\ncmd-kick: 112\ncmd-touch: 114\n"
          "cmd-stats: 115\ncmd-stats-job: 116\ncmd-stats-tube: 117\ncmd-list-tubes: 121\n"
          "cmd-list-tube-used: 122\ncmd-list-tubes-watched: 123\ncmd-pause-tube: 124\n"
          "job-timeouts: 6\ntotal-jobs: 7\nmax-job-size: 65535\ncurrent-tubes: 8\n"
          "current-connections: 9\ncurrent-producers: 10\ncurrent-workers: 11\n"
          "current-waiting: 12\ntotal-connections: 13\npid: 14\nversion: \"1.2.3\"\n"
          "rusage-utime: 1.000002\nrusage-stime: 0.999999\nuptime: 15\nbinlog-oldest-index: 0\n"
          "binlog-current-index: 0\nbinlog-records-migrated: 0\nbinlog-records-written: 16\n"
          "binlog-max-size: 0\ndraining: true\nid: 00ff\nhostname: \"h\\\"\\\\\"\n"
          "os: \"#1 SMP\"\nplatform: \"x86_64\"\ncarillon-puts: 17\ncarillon-reserves: 18\n"
          "carillon-deletes: 19\ncarillon-http-connections: 20\ncarillon-http-waiting: 21\n"));
}

TEST(BeanstalkEncoderDeathTest, WhatIsNoAnswerByItselfIsABug) {
  std::string out;
  EXPECT_DEATH(encode(answer(Answer::kUsing), out), "words of its session");
  EXPECT_DEATH(encode(detailed(broker::PartitionStats{}), out), "one partition");
  EXPECT_DEATH(encode(answer(Answer::kStats), out), "detail");
}

}  // namespace
}  // namespace carillon::protocol::beanstalk
