// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <deque>

#include "bench/common/interrupt.h"
#include "bench/common/lateness.h"
#include "bench/server/load.h"
#include "bench/server/workloads.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr int kPutters = 8;
constexpr int kWorkers = 16;
constexpr std::size_t kSequenceDigits = 12;

// The plan of one run, and when each job was put, acknowledged and reserved, by its sequence.
class Schedule final : public ReservationLog {
 public:
  Schedule(std::uint64_t jobs, Span spread, std::uint32_t delay_s)
      : jobs_(jobs),
        interval_(spread / static_cast<Span::rep>(jobs)),
        delay_s_(delay_s),
        sent_at_(jobs),
        acknowledged_at_(jobs),
        reserved_at_(jobs) {}

  void begin_at(Instant instant) { begins_at_ = instant; }
  [[nodiscard]] std::uint64_t jobs() const { return jobs_; }
  [[nodiscard]] std::uint32_t delay_s() const { return delay_s_; }
  [[nodiscard]] Span delay() const { return std::chrono::seconds(delay_s_); }
  [[nodiscard]] Instant put_at(std::uint64_t sequence) const {
    return begins_at_ + interval_ * static_cast<Span::rep>(sequence);
  }

  void on_sent(std::uint64_t sequence, Instant now) { sent_at_[sequence] = now; }
  void on_acknowledged(std::uint64_t sequence, Instant now) { acknowledged_at_[sequence] = now; }
  void on_reserved(std::string_view body, Instant read_at) override;

  // From when the put was sent, and from when it was acknowledged, in ns and ascending. The server
  // took the job between the two, so the first is what the client sees and an upper bound.
  [[nodiscard]] std::vector<std::int64_t> lateness_from_sent() const {
    return lateness_from(sent_at_);
  }
  [[nodiscard]] std::vector<std::int64_t> lateness_from_acknowledged() const {
    return lateness_from(acknowledged_at_);
  }
  [[nodiscard]] Instant first_due() const {
    return *std::min_element(sent_at_.begin(), sent_at_.end()) + delay();
  }
  [[nodiscard]] Instant last_reserved() const {
    return *std::max_element(reserved_at_.begin(), reserved_at_.end());
  }
  [[nodiscard]] std::uint64_t duplicates() const { return duplicates_; }

 private:
  [[nodiscard]] std::vector<std::int64_t> lateness_from(const std::vector<Instant>& since) const {
    std::vector<std::int64_t> lateness(jobs_);
    for (std::size_t i = 0; i < jobs_; ++i) {
      lateness[i] = (reserved_at_[i] - since[i] - delay()).count();
    }
    std::sort(lateness.begin(), lateness.end());
    return lateness;
  }

  std::uint64_t jobs_;
  Span interval_;
  std::uint32_t delay_s_;
  Instant begins_at_;
  std::uint64_t duplicates_ = 0;
  std::vector<Instant> sent_at_;
  std::vector<Instant> acknowledged_at_;
  std::vector<Instant> reserved_at_;
};

void Schedule::on_reserved(std::string_view body, Instant read_at) {
  std::uint64_t sequence = jobs_;
  if (body.size() == kBodyBytes) {
    const std::string_view digits = body.substr(0, kSequenceDigits);
    std::from_chars(digits.data(), digits.data() + digits.size(), sequence);
  }
  if (sequence >= jobs_) throw BenchError("a body came back that was never put");
  if (reserved_at_[sequence] != Instant{}) ++duplicates_;
  reserved_at_[sequence] = read_at;
}

// Puts every kPutters-th job of the schedule at its time.
class PacedPutter final : public Conversation {
 public:
  PacedPutter(Schedule& schedule, std::uint64_t first)
      : schedule_(schedule), next_(first), unanswered_(first) {}

  void start(std::string& out) override { static_cast<void>(out); }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    static_cast<void>(out);
    std::size_t taken = 0;
    Reply reply;
    for (std::size_t n = 0; (n = cut_reply(in.substr(taken), reply)) > 0; taken += n) {
      if (reply.kind != ReplyKind::kInserted) refuse_reply("put", reply);
      schedule_.on_acknowledged(unanswered_, read_at);
      unanswered_ += kPutters;
    }
    return taken;
  }

  [[nodiscard]] bool done() const override { return unanswered_ >= schedule_.jobs(); }

  [[nodiscard]] Instant speaks_at() const override {
    return next_ < schedule_.jobs() ? schedule_.put_at(next_) : Instant::max();
  }

  void speak(Instant now, std::string& out) override {
    for (; speaks_at() <= now; next_ += kPutters) {
      body_ = bodies().at(next_);
      body_.replace(0, kSequenceDigits, fmt::format("{:0{}}", next_, kSequenceDigits));
      append_put(out, schedule_.delay_s(), body_);
      schedule_.on_sent(next_, now);
    }
  }

 private:
  static const Bodies& bodies() {
    static const Bodies kBodies(kBodyBytes);
    return kBodies;
  }

  Schedule& schedule_;
  std::uint64_t next_;
  std::uint64_t unanswered_;
  std::string body_;
};

// Puts the whole schedule while `workers` wait, and runs until every job has been worked on.
LoadOutcome run_schedule(Schedule& schedule, int workers, const ServerProcess& server) {
  std::uint64_t budget = schedule.jobs();
  std::deque<PacedPutter> putters;
  std::deque<Worker> waiting;
  Engine engine(server.port());
  for (int i = 0; i < kPutters; ++i) {
    putters.emplace_back(schedule, static_cast<std::uint64_t>(i));
    engine.add(putters.back());
  }
  for (int i = 0; i < workers; ++i) {
    waiting.emplace_back(1, &budget, &schedule);
    engine.add(waiting.back());
  }
  schedule.begin_at(SteadyClock().now() + std::chrono::milliseconds(20));
  LoadOutcome outcome = run_timed(engine, server);
  outcome.jobs = schedule.jobs();
  return outcome;
}

void add_outcome(Measurement& m, const Schedule& schedule, const LoadOutcome& outcome) {
  const std::vector<std::int64_t> late_from_ack = schedule.lateness_from_acknowledged();
  const auto add = [&m](std::string name, double value) {
    m.values.emplace_back(std::move(name), value);
  };
  add_lateness(m, schedule.lateness_from_sent());
  add("p99_from_ack_ms", percentile(late_from_ack, 0.99) / 1e6);
  add("twice", static_cast<double>(schedule.duplicates()));
  add("server_cpu_us_per_job", outcome.server_us_per_job());
  add("client_cpu_us_per_job", outcome.client_us_per_job());
}

Measurement measure_lateness(std::string_view peer, const Options& options) {
  const Scale& scale = options.scale;
  RunningPeer running(peer, options.surroundings);
  Schedule schedule(scale.lateness_jobs, scale.lateness_spread, scale.lateness_delay_s);
  const LoadOutcome outcome = run_schedule(schedule, kWorkers, running.server());
  Measurement m;
  m.params = {{"jobs", static_cast<double>(schedule.jobs())},
              {"spread_s", std::chrono::duration<double>(scale.lateness_spread).count()},
              {"delay_s", schedule.delay_s()},
              {"putters", kPutters},
              {"workers", kWorkers}};
  add_outcome(m, schedule, outcome);
  return m;
}

// The pace at which one worker, one request at a time, works off jobs that are ready: what its
// round trips to this server allow.
double measure_ready_pace(std::string_view peer, const Options& options,
                          const ServerProcess& server) {
  PutLoad ready;
  ready.window = {kPutters, 64};
  ready.max_jobs = options.scale.one_worker_ready_jobs;
  run_put_load(ready, peer, server);
  return run_work_load({1, 1}, ready.max_jobs, server).per_second();
}

// When jobs fall due faster than its round trips allow, one worker should go on at that pace; when
// slower, at theirs. The pace is measured before and after, and the lower counts: what others do on
// the machine meanwhile is not the server's doing.
Measurement measure_one_worker(std::string_view peer, const Options& options) {
  const Scale& scale = options.scale;
  RunningPeer running(peer, options.surroundings);
  const double pace_before = measure_ready_pace(peer, options, running.server());

  Schedule schedule(scale.one_worker_jobs, scale.one_worker_spread, scale.lateness_delay_s);
  const LoadOutcome outcome = run_schedule(schedule, 1, running.server());

  const double spread_s = std::chrono::duration<double>(scale.one_worker_spread).count();
  const double offered = static_cast<double>(schedule.jobs()) / spread_s;
  const double pace_after = measure_ready_pace(peer, options, running.server());
  const double allowed = std::min(pace_before, pace_after);
  const double seconds =
      std::chrono::duration<double>(schedule.last_reserved() - schedule.first_due()).count();
  const double achieved = static_cast<double>(schedule.jobs()) / seconds;
  Measurement m;
  m.params = {{"jobs", static_cast<double>(schedule.jobs())},
              {"spread_s", spread_s},
              {"delay_s", schedule.delay_s()},
              {"putters", kPutters},
              {"workers", 1}};
  m.values = {{"offered_per_s", offered},
              {"pace_before_per_s", pace_before},
              {"pace_after_per_s", pace_after},
              {"achieved_per_s", achieved},
              {"of_allowed", achieved / std::min(offered, allowed)}};
  add_outcome(m, schedule, outcome);
  return m;
}

}  // namespace

void run_lateness_bench(const Options& options, Ledger& ledger) {
  std::vector<std::string_view> peers = {kCarillonMemory, kCarillonData, kBeanstalkd,
                                         kBeanstalkdF50};
  const auto run = [&](const char* cell, auto measure) {
    alternate(options, ledger, options.scale.lateness_reps, fmt::format("lateness, {}", cell),
              peers, [&](std::string_view peer) {
                Measurement m = measure(peer, options);
                m.bench = "lateness";
                m.cell = cell;
                return m;
              });
  };
  run("16 workers", measure_lateness);
  // A worker alone is held against its own round trips, so a short run needs no rival.
  if (options.check) peers = {kCarillonMemory, kCarillonData};
  run("1 worker", measure_one_worker);
}

}  // namespace carillon::bench
