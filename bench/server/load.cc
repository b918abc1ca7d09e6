// SPDX-License-Identifier: Apache-2.0
#include "bench/server/load.h"

#include <fmt/format.h>

#include <chrono>
#include <deque>

#include "bench/server/interrupt.h"
#include "bench/server/peers.h"
#include "carillon/base/clock.h"

namespace carillon::bench {
namespace {

// What all connections of one put load share.
struct PutState {
  const PutLoad& load;
  Bodies bodies{kBodyBytes};
  std::uint64_t begun = 0;
  std::uint64_t acknowledged = 0;
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
  LoadOutcome outcome;
  const double server_before = server.cpu_seconds();
  const double client_before = own_cpu_seconds();
  outcome.seconds = std::chrono::duration<double>(engine.run(kLoadLimit)).count();
  outcome.client_cpu_s = own_cpu_seconds() - client_before;
  outcome.server_cpu_s = server.cpu_seconds() - server_before;
  return outcome;
}

void refuse_reply(std::string_view what, const Reply& reply) {
  throw BenchError(fmt::format("{} was answered \"{}\"", what, reply.line.substr(0, 80)));
}

LoadOutcome run_put_load(const PutLoad& load, std::string_view peer, const ServerProcess& server) {
  PutState state{load};
  state.began = state.now = SteadyClock().now();
  state.wall_began = SystemCalendar().now();
  state.stop_at = saturating_add(state.began, load.max_time);
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
  LoadOutcome outcome = run_timed(engine, server);
  outcome.jobs = state.acknowledged;
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
