// SPDX-License-Identifier: Apache-2.0
#include "bench/server/load.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>
#include <optional>

#include "bench/common/interrupt.h"
#include "bench/server/peers.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

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
  WallTime wall_began{};  // Redis is told points in time,
  Instant began{};        // counted on from here
  Instant now{};
};

class Putter : public Conversation {
 public:
  explicit Putter(PutState& state) : state_(state) {}

  void start(std::string& out) override {
    for (int i = 0; i < state_.load.window.depth; ++i) put_next(out);
  }

  std::size_t consume(std::string_view in, Instant read_at, std::string& out) override {
    std::size_t taken = 0;
    std::uint64_t acknowledged = 0;
    Reply reply;
    for (std::size_t n = 0; (n = cut_reply(in.substr(taken), reply)) > 0; taken += n) {
      if (acknowledges(reply)) ++acknowledged;
    }
    state_.acknowledged += acknowledged;
    if (!state_.watch && read_at >= state_.warm_at) {
      state_.acknowledged_before = state_.acknowledged;
      state_.watch.emplace(state_.server, read_at);
    }
    unanswered_ -= static_cast<int>(acknowledged);
    state_.now = read_at;
    if (read_at < state_.stop_at) {
      for (; acknowledged > 0; --acknowledged) put_next(out);
    }
    return taken;
  }

  [[nodiscard]] bool done() const override { return unanswered_ == 0; }

 protected:
  // Whether the reply completes the acknowledgement of a job.
  virtual bool acknowledges(const Reply& reply) {
    if (reply.kind != ReplyKind::kInserted) refuse_reply("put", reply);
    return true;
  }
  virtual void append_job(std::string& out, std::uint64_t sequence) {
    append_put(out, state_.load.delay_s, state_.bodies.at(sequence));
  }

  PutState& state_;

 private:
  void put_next(std::string& out) {
    if (state_.begun >= state_.load.max_jobs) return;
    append_job(out, state_.begun++);
    ++unanswered_;
  }

  int unanswered_ = 0;
};

// A job is two commands and so two replies, the second of which completes it.
class RedisPutter final : public Putter {
 public:
  using Putter::Putter;

 protected:
  bool acknowledges(const Reply& reply) override {
    if (reply.kind != ReplyKind::kRedisInteger) refuse_reply("ZADD or HSET", reply);
    second_ = !second_;
    return !second_;
  }
  void append_job(std::string& out, std::uint64_t sequence) override {
    const WallTime due =
        state_.wall_began + (state_.now - state_.began) + std::chrono::seconds(state_.load.delay_s);
    append_redis_put(out, state_.load.first_id + sequence, ceil_ms(due),
                     state_.bodies.at(sequence));
  }

 private:
  bool second_ = false;
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
  Engine engine(server.port());
  for (int i = 0; i < load.window.connections; ++i) {
    if (speaks_redis(peer)) {
      putters.push_back(std::make_unique<RedisPutter>(state));
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

LoadOutcome run_work_load(Window window, std::uint64_t jobs, const ServerProcess& server) {
  std::uint64_t budget = jobs;
  std::deque<Worker> workers;
  Engine engine(server.port());
  for (int i = 0; i < window.connections; ++i) {
    workers.emplace_back(window.depth, &budget, nullptr);
    engine.add(workers.back());
  }
  LoadOutcome outcome = run_timed(engine, server);
  outcome.jobs = jobs;
  return outcome;
}

void Worker::reserve_next(std::string& out) {
  if (*budget_ == 0) return;
  --*budget_;
  ++in_cycle_;
  out.append("reserve\r\n");
}

void Worker::start(std::string& out) {
  for (int i = 0; i < depth_; ++i) reserve_next(out);
}

std::size_t Worker::consume(std::string_view in, Instant read_at, std::string& out) {
  std::size_t taken = 0;
  Reply reply;
  for (std::size_t n = 0; (n = cut_reply(in.substr(taken), reply)) > 0; taken += n) {
    if (reply.kind == ReplyKind::kReserved) {
      if (log_ != nullptr) log_->on_reserved(reply.body, read_at);
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

}  // namespace carillon::bench
