// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How a queue is spoken to that is asked for several jobs at once: Redis, PostgreSQL and the HTTP
/// API of carillon. (beanstalk's protocol has a command a job; load.h speaks it.)

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/time.h"

namespace carillon::bench {

struct JobToPut {
  std::uint64_t id;  ///< Redis is told it; the others choose one.
  std::string_view body;
};

/// When jobs are to be due, in both ways of saying it.
struct DueTime {
  Span delay;
  WallTime at;
};

/// A job that was claimed. All of it points into the reply.
struct ClaimedJob {
  std::string_view id;       ///< As it is written in this dialect.
  std::string_view receipt;  ///< Where there is one.
  std::string_view body;
};

/// Writes the requests of one connection and cuts their replies.
///
/// Each `cut_...` takes one whole reply off the front of `in` and returns its bytes, 0 if it is not
/// there yet. Replies come in the order of the requests.
///
/// Threads: unsafe.
/// Errors:  throws BenchError for a reply that is not the expected one.
class Dialect {
 public:
  virtual ~Dialect() = default;

  /// What a connection begins with, blocking.
  virtual void greet(int fd) { static_cast<void>(fd); }

  /// Whether several jobs in one request are better than as many requests in a row.
  [[nodiscard]] virtual bool groups() const = 0;
  /// Whether a claim waits for jobs; else it is repeated.
  [[nodiscard]] virtual bool waits() const = 0;

  virtual void append_put(std::string& out, DueTime due, std::span<const JobToPut> jobs) = 0;
  /// Adds how many jobs the reply acknowledges, which is none if it takes several replies.
  virtual std::size_t cut_put(std::string_view in, std::uint64_t& jobs) = 0;

  /// Asks for up to `most` jobs that are due at `now`.
  virtual void append_claim(std::string& out, std::uint64_t most, WallTime now) = 0;
  virtual std::size_t cut_claim(std::string_view in, std::vector<ClaimedJob>& jobs) = 0;

  /// Says that these jobs are done. Not for none.
  virtual void append_finish(std::string& out, std::span<const ClaimedJob> jobs) = 0;
  /// Sets how many jobs the reply says are gone.
  virtual std::size_t cut_finish(std::string_view in, std::uint64_t& jobs) = 0;
};

[[nodiscard]] std::unique_ptr<Dialect> make_redis_dialect();
[[nodiscard]] std::unique_ptr<Dialect> make_postgres_dialect();
[[nodiscard]] std::unique_ptr<Dialect> make_http_dialect();

}  // namespace carillon::bench
