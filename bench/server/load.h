// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The two loads that all workloads are made of: putting jobs through windows that are kept full,
/// and reserving and deleting them the same way.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/server/engine.h"
#include "bench/server/server_process.h"
#include "bench/server/wire.h"
#include "carillon/base/time.h"

namespace carillon::bench {

inline constexpr std::size_t kBodyBytes = 200;
inline constexpr Span kLoadLimit = std::chrono::seconds(600);  ///< Then a load has hung.

/// How many requests windows are kept full with, over all connections.
struct Window {
  int connections = 1;
  int depth = 1;  ///< Unanswered requests a connection.
};

/// Told of each put when it is written, and may write the body.
class PutLog {
 public:
  virtual ~PutLog() = default;
  virtual void on_put(std::uint64_t sequence, Instant now, Span delay, std::string& body) = 0;
};

struct PutLoad {
  Window window;
  std::uint32_t delay_s = 0;
  std::uint64_t max_jobs = 0;  ///< It ends after so many jobs,
  Span max_time = kForever;    ///< or when no more are begun, whichever is first.
  Span warm_up = Span(0);      ///< What comes back within this is done, but not counted.
  std::uint64_t first_id = 0;  ///< Ids are the client's business with Redis only.
  /// Jobs a request, where one request can hold several (Dialect::groups()).
  int group = 1;
  /// If any: not after delay_s, but so many whole seconds from the beginning that all jobs fall due
  /// within one second, this one.
  std::uint32_t due_second = 0;
  /// Told of each job, if any.
  PutLog* log = nullptr;
};

/// What a load did and what it took.
struct LoadOutcome {
  std::uint64_t jobs = 0;
  std::uint64_t jobs_before = 0;  ///< While warming up; not in `jobs`.
  double seconds = 0;
  double server_cpu_s = 0;
  double client_cpu_s = 0;

  [[nodiscard]] double per_second() const { return static_cast<double>(jobs) / seconds; }
  [[nodiscard]] double server_us_per_job() const {
    return server_cpu_s * 1e6 / static_cast<double>(jobs);
  }
  [[nodiscard]] double client_us_per_job() const {
    return client_cpu_s * 1e6 / static_cast<double>(jobs);
  }
};

/// Runs the engine and measures what it cost both sides. The caller sets `jobs`.
LoadOutcome run_timed(Engine& engine, const ServerProcess& server);

/// Puts jobs of kBodyBytes. Throws BenchError on any reply but the one that acknowledges a job.
LoadOutcome run_put_load(const PutLoad& load, std::string_view peer, const ServerProcess& server);

/// Reserves and deletes exactly `jobs` jobs, which are or will become ready in "default".
LoadOutcome run_work_load(Window window, std::uint64_t jobs, std::string_view peer,
                          const ServerProcess& server);

/// Told of each reservation when its reply has been read.
class ReservationLog {
 public:
  virtual ~ReservationLog() = default;
  virtual void on_reserved(std::string_view body, Instant read_at) = 0;
};

/// What workers of one load share.
struct WorkState {
  std::uint64_t budget = 0;  ///< Jobs that are not yet asked for; workers end when it is used up.
  ReservationLog* log = nullptr;
};

/// A connection that keeps `depth` jobs in the cycle of reserving and deleting: each on its own
/// where the protocol has a command a job, else together. A job is only asked for if there is one
/// left in the budget, so none waits at the end.
[[nodiscard]] std::unique_ptr<Conversation> make_worker(std::string_view peer, int depth,
                                                        WorkState& state);

/// Throws BenchError: `reply` is none that `what` may be answered with.
[[noreturn]] void refuse_reply(std::string_view what, const Reply& reply);

}  // namespace carillon::bench
