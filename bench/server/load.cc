// SPDX-License-Identifier: Apache-2.0
#include "bench/server/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "bench/common/interrupt.h"
#include "bench/server/peers.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

constexpr Span kPollInterval = std::chrono::milliseconds(10);

// Counts from its construction what passes: time, and CPU time of both sides.
class Stopwatch {
 public:
  Stopwatch(const ServerProcess& server, Instant now)
      : server_(server),
        began_(now),
        server_cpu_s_(server.cpu_seconds()),
        client_cpu_s_(own_cpu_seconds()) {}

  [[nodiscard]] LoadOutcome read(Instant now) const {
    LoadOutcome outcome;
    outcome.seconds = std::chrono::duration<double>(now - began_).count();
    outcome.server_cpu_s = server_.cpu_seconds() - server_cpu_s_;
    outcome.client_cpu_s = own_cpu_seconds() - client_cpu_s_;
    return outcome;
  }

 private:
  const ServerProcess& server_;
  Instant began_;
  double server_cpu_s_;
  double client_cpu_s_;
};

// What all connections of one put load share.
struct PutState {
  const PutLoad& load;
  const ServerProcess& server;
  Bodies bodies{kBodyBytes};
  std::uint64_t begun = 0;
  std::uint64_t acknowledged = 0;
  std::uint64_t acknowledged_before = 0;  // while warming up
  std::optional<Stopwatch> watch{};       // once warm
  Instant warm_at{};
  Instant stop_at{};
  WallTime wall_began{};  // Redis and PostgreSQL are told points in time,
  Instant began{};        // counted on from here
  Instant now{};
  std::string body{};  // that a log has written in

  [[nodiscard]] std::uint32_t delay_s() const {
    if (load.due_second == 0) return load.delay_s;
    const auto passed = std::chrono::duration_cast<std::chrono::seconds>(now - began).count();
    if (passed >= load.due_second) throw BenchError("the jobs were not put before they were due");
    return load.due_second - static_cast<std::uint32_t>(passed);
  }

  // The next body; valid until the next call.
  std::string_view body_of(std::uint64_t sequence) {
    if (load.log == nullptr) return bodies.at(sequence);
    body = bodies.at(sequence);
    load.log->on_put(sequence, now, std::chrono::seconds(delay_s()), body);
    return body;
  }
};

// Keeps a window full.
class Putter : public Conversation {
 public:
  explicit Putter(PutState& state) : state_(state) {}

  void start(std::string& out) override { put(static_cast<std::uint64_t>(depth()), out); }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    std::size_t taken = 0;
    std::uint64_t acknowledged = 0;
    for (std::size_t n = 0; (n = cut(in.substr(taken), acknowledged)) > 0;) taken += n;
    state_.acknowledged += acknowledged;
    if (!state_.watch && read_at >= state_.warm_at) {
      state_.acknowledged_before = state_.acknowledged;
      state_.watch.emplace(state_.server, read_at);
    }
    unanswered_ -= static_cast<int>(acknowledged);
    state_.now = read_at;
    if (read_at < state_.stop_at) put(static_cast<std::uint64_t>(depth() - unanswered_), out);
    return taken;
  }

  [[nodiscard]] bool done() const override { return unanswered_ == 0; }

 protected:
  // Takes one reply; adds how many jobs it acknowledges.
  virtual std::size_t cut(std::string_view in, std::uint64_t& acknowledged) {
    Reply reply;
    const std::size_t taken = cut_reply(in, reply);
    if (taken == 0) return 0;
    if (reply.kind != ReplyKind::kInserted) refuse_reply("put", reply);
    ++acknowledged;
    return taken;
  }

  // Writes the next jobs, of which the window has room for `room`; returns how many.
  virtual std::uint64_t append_jobs(std::string& out, std::uint64_t room) {
    for (std::uint64_t i = 0; i < room; ++i) {
      append_put(out, state_.delay_s(), state_.body_of(state_.begun++));
    }
    return room;
  }

  PutState& state_;

 private:
  [[nodiscard]] int depth() const { return state_.load.window.depth; }

  void put(std::uint64_t room, std::string& out) {
    room = std::min(room, state_.load.max_jobs - state_.begun);
    unanswered_ += static_cast<int>(append_jobs(out, room));
  }

  int unanswered_ = 0;
};

// The same for what has a dialect, in requests of a group if it can do so.
class DialectPutter final : public Putter {
 public:
  DialectPutter(PutState& state, std::unique_ptr<Dialect> dialect)
      : Putter(state), dialect_(std::move(dialect)) {
    if (dialect_->groups()) group_ = static_cast<std::uint64_t>(state.load.group);
    bodies_.resize(group_);
  }

  void greet(int fd) override { dialect_->greet(fd); }

 protected:
  std::size_t cut(std::string_view in, std::uint64_t& acknowledged) override {
    return dialect_->cut_put(in, acknowledged);
  }

  std::uint64_t append_jobs(std::string& out, std::uint64_t room) override {
    const bool last = state_.begun + room == state_.load.max_jobs;
    std::uint64_t begun = 0;
    while (room - begun >= group_ || (last && begun < room)) {
      const std::uint64_t size = std::min(group_, room - begun);
      const Span delay = std::chrono::seconds(state_.delay_s());
      const DueTime due = {delay, state_.wall_began + (state_.now - state_.began) + delay};
      jobs_.clear();
      for (std::uint64_t i = 0; i < size; ++i, ++begun) {
        const std::uint64_t sequence = state_.begun++;
        bodies_[i] = state_.body_of(sequence);
        jobs_.push_back({state_.load.first_id + sequence, bodies_[i]});
      }
      dialect_->append_put(out, due, jobs_);
    }
    return begun;
  }

 private:
  std::unique_ptr<Dialect> dialect_;
  std::uint64_t group_ = 1;
  std::vector<std::string> bodies_;
  std::vector<JobToPut> jobs_;
};

// A worker that has one job a command: `depth` of them are in the cycle reserve -> delete.
class CommandWorker final : public Conversation {
 public:
  CommandWorker(int depth, WorkState& state) : depth_(depth), state_(state) {}

  void start(std::string& out) override {
    for (int i = 0; i < depth_; ++i) reserve_next(out);
  }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    std::size_t taken = 0;
    Reply reply;
    for (std::size_t n = 0; (n = cut_reply(in.substr(taken), reply)) > 0; taken += n) {
      if (reply.kind == ReplyKind::kReserved) {
        if (state_.log != nullptr) state_.log->on_reserved(reply.body, read_at);
        append_delete(out, reply.id);
      } else if (reply.kind == ReplyKind::kDeleted) {
        --in_cycle_;
        reserve_next(out);
      } else {
        refuse_reply("reserve or delete", reply);
      }
    }
    return taken;
  }

  [[nodiscard]] bool done() const override { return in_cycle_ == 0; }

 private:
  void reserve_next(std::string& out) {
    if (state_.budget == 0) return;
    --state_.budget;
    ++in_cycle_;
    out.append("reserve\r\n");
  }

  int depth_;
  WorkState& state_;
  int in_cycle_ = 0;
};

// A worker that claims up to `depth` jobs at once and, when it has them, says that all are done. A
// claim that does not wait is repeated every kPollInterval while there is nothing.
class DialectWorker final : public Conversation {
 public:
  DialectWorker(std::unique_ptr<Dialect> dialect, int depth, WorkState& state)
      : dialect_(std::move(dialect)), depth_(static_cast<std::uint64_t>(depth)), state_(state) {}

  void greet(int fd) override { dialect_->greet(fd); }
  void start(std::string& out) override { claim_next(SystemCalendar().now(), out); }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    std::size_t taken = 0;
    for (std::size_t n = 1; n > 0; taken += n) {
      n = phase_ == Phase::kClaiming    ? take_claim(in.substr(taken), read_at, out)
          : phase_ == Phase::kFinishing ? take_finish(in.substr(taken), out)
                                        : 0;
    }
    return taken;
  }

  [[nodiscard]] bool done() const override { return phase_ == Phase::kDone; }
  [[nodiscard]] Instant speaks_at() const override { return polls_at_; }
  void speak(Instant now, std::string& out) override {
    static_cast<void>(now);
    polls_at_ = Instant::max();
    claim_next(SystemCalendar().now(), out);
  }

 private:
  enum class Phase { kClaiming, kFinishing, kPausing, kDone };

  void claim_next(WallTime now, std::string& out) {
    claimed_ = std::min(depth_, state_.budget);
    state_.budget -= claimed_;
    phase_ = claimed_ > 0 ? Phase::kClaiming : Phase::kDone;
    if (claimed_ > 0) dialect_->append_claim(out, claimed_, now);
  }

  std::size_t take_claim(std::string_view in, Instant read_at, std::string& out) {
    jobs_.clear();
    const std::size_t taken = dialect_->cut_claim(in, jobs_);
    if (taken == 0) return 0;
    if (jobs_.size() > claimed_) throw BenchError("more jobs came than were claimed");
    state_.budget += claimed_ - jobs_.size();
    claimed_ = jobs_.size();
    if (jobs_.empty()) {
      phase_ = Phase::kPausing;
      polls_at_ = dialect_->waits() ? read_at : read_at + kPollInterval;
      return taken;
    }
    if (state_.log != nullptr) {
      for (const ClaimedJob& job : jobs_) state_.log->on_reserved(job.body, read_at);
    }
    dialect_->append_finish(out, jobs_);
    phase_ = Phase::kFinishing;
    return taken;
  }

  std::size_t take_finish(std::string_view in, std::string& out) {
    std::uint64_t finished = 0;
    const std::size_t taken = dialect_->cut_finish(in, finished);
    if (taken == 0) return 0;
    if (finished != claimed_) {
      throw BenchError(fmt::format("{} jobs were claimed, {} finished", claimed_, finished));
    }
    claim_next(SystemCalendar().now(), out);
    return taken;
  }

  std::unique_ptr<Dialect> dialect_;
  std::uint64_t depth_;
  WorkState& state_;
  Phase phase_ = Phase::kPausing;
  std::uint64_t claimed_ = 0;
  Instant polls_at_ = Instant::max();
  std::vector<ClaimedJob> jobs_;
};

}  // namespace

LoadOutcome run_timed(Engine& engine, const ServerProcess& server) {
  const Stopwatch watch(server, SteadyClock().now());
  engine.run(kLoadLimit);
  return watch.read(SteadyClock().now());
}

void refuse_reply(std::string_view what, const Reply& reply) {
  throw BenchError(fmt::format("{} was answered \"{}\"", what, reply.line.substr(0, 80)));
}

LoadOutcome run_put_load(const PutLoad& load, std::string_view peer, const ServerProcess& server) {
  PutState state{load, server};
  std::vector<std::unique_ptr<Putter>> putters;
  Engine engine(server.address());
  for (int i = 0; i < load.window.connections; ++i) {
    if (auto dialect = make_dialect(peer)) {
      putters.push_back(std::make_unique<DialectPutter>(state, std::move(dialect)));
    } else {
      putters.push_back(std::make_unique<Putter>(state));
    }
    engine.add(*putters.back());
  }
  state.began = state.now = SteadyClock().now();
  state.wall_began = SystemCalendar().now();
  state.warm_at = state.began + load.warm_up;
  state.stop_at = saturating_add(state.warm_at, load.max_time);
  if (load.warm_up == Span(0)) state.watch.emplace(server, state.began);
  engine.run(kLoadLimit);
  if (!state.watch || state.acknowledged == state.acknowledged_before) {
    throw BenchError("all was over while warming up");
  }
  LoadOutcome outcome = state.watch->read(SteadyClock().now());
  outcome.jobs = state.acknowledged - state.acknowledged_before;
  outcome.jobs_before = state.acknowledged_before;
  return outcome;
}

std::unique_ptr<Conversation> make_worker(std::string_view peer, int depth, WorkState& state) {
  if (auto dialect = make_dialect(peer)) {
    return std::make_unique<DialectWorker>(std::move(dialect), depth, state);
  }
  return std::make_unique<CommandWorker>(depth, state);
}

LoadOutcome run_work_load(Window window, std::uint64_t jobs, std::string_view peer,
                          const ServerProcess& server) {
  WorkState state{jobs};
  std::vector<std::unique_ptr<Conversation>> workers;
  Engine engine(server.address());
  for (int i = 0; i < window.connections; ++i) {
    workers.push_back(make_worker(peer, window.depth, state));
    engine.add(*workers.back());
  }
  LoadOutcome outcome = run_timed(engine, server);
  outcome.jobs = jobs;
  return outcome;
}

}  // namespace carillon::bench
