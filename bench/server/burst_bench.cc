// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "bench/common/interrupt.h"
#include "bench/common/lateness.h"
#include "bench/server/load.h"
#include "bench/server/peers.h"
#include "bench/server/schedule.h"
#include "bench/server/workloads.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

using std::chrono::seconds;

constexpr Window kWindow = {8, 64};
constexpr int kGroup = 64;
// A thin stream falls due over one second, well before and well after the burst.
constexpr std::uint32_t kBeforeS = 2;
constexpr std::uint32_t kAfterS = 4;
constexpr std::string_view kCell = "one second";

// The jobs of one run: first those of the burst, then those of the stream before, then after. All
// have numbers of their own, so that each is known by its body.
class BurstLog final : public PutLog, public ReservationLog {
 public:
  BurstLog(std::uint64_t burst, std::uint64_t stream)
      : burst_(burst), stream_(stream), due_(burst + 2 * stream), reserved_(burst + 2 * stream) {}

  [[nodiscard]] std::uint64_t jobs() const { return due_.size(); }

  void on_put(std::uint64_t sequence, Instant now, Span delay, std::string& body) override {
    stamp_body(body, sequence);
    set_due(sequence, now + delay);
  }
  void set_due(std::uint64_t sequence, Instant due) { due_[sequence] = due; }

  void on_reserved(std::string_view body, Instant read_at) override {
    const std::uint64_t sequence = sequence_of(body, jobs());
    if (reserved_[sequence] != Instant{}) throw BenchError("a job was delivered twice");
    reserved_[sequence] = read_at;
  }

  [[nodiscard]] std::vector<std::int64_t> burst() const { return lateness(0, burst_); }
  [[nodiscard]] std::vector<std::int64_t> before() const {
    return lateness(burst_, burst_ + stream_);
  }
  [[nodiscard]] std::vector<std::int64_t> after() const {
    return lateness(burst_ + stream_, jobs());
  }
  // From when the last of the burst was due until the last was delivered.
  [[nodiscard]] Span drained_after() const {
    const auto end = static_cast<std::ptrdiff_t>(burst_);
    return *std::max_element(reserved_.begin(), reserved_.begin() + end) -
           *std::max_element(due_.begin(), due_.begin() + end);
  }

 private:
  [[nodiscard]] std::vector<std::int64_t> lateness(std::uint64_t from, std::uint64_t to) const {
    std::vector<std::int64_t> result;
    for (std::uint64_t i = from; i < to; ++i) result.push_back((reserved_[i] - due_[i]).count());
    std::sort(result.begin(), result.end());
    return result;
  }

  std::uint64_t burst_;
  std::uint64_t stream_;
  std::vector<Instant> due_;
  std::vector<Instant> reserved_;
};

// One connection that puts both streams, a job of each at a time, over a second from `begins_at`.
class StreamPutter final : public Conversation {
 public:
  StreamPutter(std::string_view peer, BurstLog& log, std::uint64_t burst, std::uint64_t stream,
               Instant begins_at, std::uint32_t before_s, std::uint32_t after_s)
      : dialect_(make_dialect(peer)),
        log_(log),
        burst_(burst),
        stream_(stream),
        begins_at_(begins_at),
        delays_{before_s, after_s} {}

  void greet(int fd) override {
    if (dialect_ != nullptr) dialect_->greet(fd);
  }
  void start(std::string& out) override { static_cast<void>(out); }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    static_cast<void>(read_at);
    static_cast<void>(out);
    std::size_t taken = 0;
    for (std::size_t n = 0; (n = cut(in.substr(taken))) > 0;) taken += n;
    return taken;
  }

  [[nodiscard]] bool done() const override { return acknowledged_ == 2 * stream_; }
  [[nodiscard]] Instant speaks_at() const override {
    return put_ < stream_ ? begins_at_ + put_at(put_) : Instant::max();
  }

  void speak(Instant now, std::string& out) override {
    for (; put_ < stream_ && begins_at_ + put_at(put_) <= now; ++put_) {
      for (std::uint64_t half = 0; half < 2; ++half) {
        const std::uint64_t sequence = burst_ + half * stream_ + put_;
        std::string body(bodies_.at(sequence));
        stamp_body(body, sequence);
        const Span delay = seconds(delays_[half]);
        log_.set_due(sequence, now + delay);
        if (dialect_ == nullptr) {
          append_put(out, delays_[half], body);
        } else {
          const JobToPut job = {sequence, body};
          dialect_->append_put(out, {delay, SystemCalendar().now() + delay}, {&job, 1});
        }
      }
    }
  }

 private:
  [[nodiscard]] Span put_at(std::uint64_t index) const {
    return Span(seconds(1)) / static_cast<Span::rep>(stream_) * static_cast<Span::rep>(index);
  }

  std::size_t cut(std::string_view in) {
    if (dialect_ != nullptr) return dialect_->cut_put(in, acknowledged_);
    Reply reply;
    const std::size_t taken = cut_reply(in, reply);
    if (taken == 0) return 0;
    if (reply.kind != ReplyKind::kInserted) refuse_reply("put", reply);
    ++acknowledged_;
    return taken;
  }

  std::unique_ptr<Dialect> dialect_;
  BurstLog& log_;
  Bodies bodies_{kBodyBytes};
  std::uint64_t burst_;
  std::uint64_t stream_;
  Instant begins_at_;
  std::array<std::uint32_t, 2> delays_;
  std::uint64_t put_ = 0;
  std::uint64_t acknowledged_ = 0;
};

double p99_ms(const std::vector<std::int64_t>& sorted) { return percentile(sorted, 0.99) / 1e6; }

Measurement measure_burst(std::string_view peer, const Options& options) {
  const Scale& scale = options.scale;
  RunningPeer running(peer, options.surroundings);
  BurstLog log(scale.burst_jobs, scale.burst_stream_jobs);
  PutLoad load;
  load.window = kWindow;
  load.group = kGroup;
  load.max_jobs = scale.burst_jobs;
  load.due_second = scale.burst_due_s;
  load.log = &log;
  const SteadyClock clock;
  const Instant began = clock.now();
  run_put_load(load, peer, running.server());

  // In whole seconds since the beginning, for delays are whole seconds to some.
  const auto put_s = std::chrono::duration_cast<seconds>(clock.now() - began).count() + 1;
  const auto stream_s = static_cast<std::uint32_t>(put_s);
  if (stream_s + kBeforeS + 1 > scale.burst_due_s) {
    throw BenchError("the jobs were not put before they were due");
  }
  WorkState state{log.jobs(), &log};
  StreamPutter putter(peer, log, scale.burst_jobs, scale.burst_stream_jobs,
                      began + seconds(stream_s), scale.burst_due_s - kBeforeS - stream_s,
                      scale.burst_due_s + kAfterS - stream_s);
  std::vector<std::unique_ptr<Conversation>> workers;
  Engine engine(running.server().address());
  engine.add(putter);
  for (int i = 0; i < kWindow.connections; ++i) {
    workers.push_back(make_worker(peer, kWindow.depth, state));
    engine.add(*workers.back());
  }
  LoadOutcome outcome = run_timed(engine, running.server());
  outcome.jobs = log.jobs();

  Measurement m;
  m.params = {{"jobs", static_cast<double>(scale.burst_jobs)},
              {"stream_jobs", static_cast<double>(scale.burst_stream_jobs)},
              {"connections", kWindow.connections},
              {"depth", kWindow.depth}};
  const std::vector<std::int64_t> burst = log.burst();
  add_lateness(m, burst);
  const double before = p99_ms(log.before());
  const double after = p99_ms(log.after());
  m.values.insert(m.values.end(),
                  {{"drained_after_s", std::chrono::duration<double>(log.drained_after()).count()},
                   {"before_p99_ms", before},
                   {"after_p99_ms", after},
                   {"server_cpu_us_per_job", outcome.server_us_per_job()}});
  return m;
}

}  // namespace

void run_burst_bench(const Options& options, Ledger& ledger) {
  std::vector<std::string_view> peers = {kCarillonData, kCarillonHttp};
  if (!options.check) {
    peers.insert(peers.end(), {kCarillonMemory, kRedisEverysec, kRedis, kPostgres, kBeanstalkdF50});
  }
  alternate(options, ledger, options.scale.burst_reps, "burst", peers, [&](std::string_view peer) {
    Measurement m = measure_burst(peer, options);
    m.bench = "burst";
    m.cell = kCell;
    return m;
  });
}

}  // namespace carillon::bench
