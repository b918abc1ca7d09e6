// SPDX-License-Identifier: Apache-2.0
// What a command costs in the broker alone: no protocol, no socket, a store that says yes at once.
//
//     put_reserve_delete/n   one cycle, with n other jobs ready in the same tube
//     put_delayed_delete/n   with n other jobs delayed over the next five minutes
//     put_reserve_waiting    a waiting session is served by each put
//     fire/n                 n jobs fall due, one by one
//     put_far                a job for the store alone
//     walk_wheel/n           what lies where in the wheel, of n jobs delayed over five minutes
//     list_first/n           the first page of a list of them, of 1,000
//     list_next/n            a page behind it
//                            (of these: turn_us, for how long they keep others waiting)
//     memory/n               bytes of heap a delayed job with an empty body, its body apart
//
// A batch is taken every 1,000 commands.

#include <benchmark/benchmark.h>
#include <malloc.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/base/random.h"
#include "carillon/broker/broker.h"

namespace carillon::broker {
namespace {

class Host final : public Effects {
 public:
  explicit Host(const BrokerOptions& options = {}) : broker(options, *this) {
    broker.finish_recovery(now, {});
    for (const SessionId session : {SessionId{1}, SessionId{2}}) {
      broker.open_session(session);
      Command watch;
      watch.verb = Verb::kWatch;
      watch.tube = "default";
      run(session, std::move(watch));
    }
  }

  void run(SessionId session, Command&& command) {
    command.ticket = {session, ++slot};
    broker.execute(std::move(command), now);
    if (++commands % 1'000 == 0) commit();
  }
  void commit() {
    if (!broker.has_batch()) return;
    recycled = broker.take_batch(std::move(recycled));
    broker.on_durable(recycled->seq);
  }
  JobId put(Span delay = {}, std::uint32_t priority = 0) {
    Command command;
    command.verb = Verb::kPut;
    command.tube = "default";
    command.ttr = std::chrono::seconds(60);
    command.delay = delay;
    command.priority = priority;
    command.body = body ? Body(body.view()) : Body();
    run(1, std::move(command));
    return last.id;
  }
  JobId reserve(SessionId session = 1) {
    Command command;
    command.verb = Verb::kReserve;
    run(session, std::move(command));
    return last.id;
  }
  void del(JobId id, SessionId session = 1) {
    Command command;
    command.verb = Verb::kDelete;
    command.id = id;
    run(session, std::move(command));
  }

  void reply(Ticket, Reply reply, CommitSeq) override {
    checksum += reply.id * 31 + static_cast<std::uint64_t>(reply.answer);
    last = std::move(reply);
  }
  void fetch(const WantedJob&) override {}
  void scan_far(TubeNumber, FarCursor, std::int64_t, std::size_t) override {}
  void read_far(std::uint64_t, TubeNumber, FarCursor, std::int64_t, std::size_t) override {}
  void find_key(TubeNumber, const std::string&) override {}

  WallTime now{std::chrono::seconds(1'767'225'600)};
  Broker broker;
  std::unique_ptr<Batch> recycled;
  Body body{std::string(200, 'x')};
  Reply last;
  std::uint64_t slot = 0;
  std::uint64_t commands = 0;
  std::uint64_t checksum = 0;
};

/// Has the command done, turn by turn, and notes the longest.
/// What turns took.
struct Turns {
  std::vector<double> us;
  void report(benchmark::State& state) {
    std::sort(us.begin(), us.end());
    state.counters["turn_us_p99"] = us[us.size() * 99 / 100];
    state.counters["turn_us_max"] = us.back();
  }
};

void run_scan(Host& host, Command command, Turns& turns) {
  // By the thread's own clock: that others have the processor meanwhile is not the broker's doing.
  const auto cpu_us = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
  };
  const auto timed = [&](auto&& call) {
    const double before = cpu_us();
    call();
    turns.us.push_back(cpu_us() - before);
  };
  host.last.detail.reset();
  timed([&] { host.run(1, std::move(command)); });
  while (host.last.detail == nullptr) {
    timed([&] { host.broker.advance(host.now, 1'000); });
  }
}

void put_delayed(Host& host, std::int64_t count) {
  Random random(1);
  for (std::int64_t i = 0; i < count; ++i) {
    host.put(std::chrono::milliseconds(random.between(1'000, 300'000)));
  }
  host.commit();
}

void walk_wheel(benchmark::State& state) {
  Host host;
  put_delayed(host, state.range(0));
  Turns turns;
  for (auto _ : state) {
    Command command;
    command.verb = Verb::kWheel;
    run_scan(host, std::move(command), turns);
  }
  turns.report(state);
  state.counters["checksum"] = static_cast<double>(host.checksum % 1'000'000);
}
BENCHMARK(walk_wheel)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void list_pages(benchmark::State& state, bool first) {
  Host host;
  put_delayed(host, state.range(0));
  Turns turns;
  ListCursor after;
  const auto page = [&] {
    auto options = std::make_shared<CommandOptions>();
    options->list.state = JobState::kDelayed;
    options->list.limit = 1'000;
    options->list.after = after;
    Command command;
    command.verb = Verb::kList;
    command.tube = "default";
    command.options = std::move(options);
    run_scan(host, std::move(command), turns);
    const auto& found = std::get<JobPage>(*host.last.detail);
    after = first || !found.next ? ListCursor{} : *found.next;
    host.checksum += found.jobs.size();
  };
  page();
  for (auto _ : state) page();
  turns.report(state);
  state.counters["checksum"] = static_cast<double>(host.checksum % 1'000'000);
}
void list_first(benchmark::State& state) { list_pages(state, true); }
void list_next(benchmark::State& state) { list_pages(state, false); }
BENCHMARK(list_first)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(list_next)->Arg(1'000'000)->Unit(benchmark::kMillisecond);

void put_reserve_delete(benchmark::State& state) {
  Host host;
  for (std::int64_t i = 0; i < state.range(0); ++i) host.put({}, 1);
  for (auto _ : state) {
    host.now += Span(1'000);
    host.put();
    host.del(host.reserve());
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["checksum"] = static_cast<double>(host.checksum % 1'000'000);
}
BENCHMARK(put_reserve_delete)->Arg(0)->Arg(1'000'000);

// As a queue is used: put at one end, taken at the other.
void queue_through(benchmark::State& state) {
  Host host;
  for (std::int64_t i = 0; i < state.range(0); ++i) host.put();
  for (auto _ : state) {
    host.now += Span(1'000);
    host.put();
    host.del(host.reserve());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(queue_through)->Arg(1'000)->Arg(1'000'000);

void put_delayed_delete(benchmark::State& state) {
  Host host;
  Random random(1);
  std::vector<JobId> ids;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    ids.push_back(host.put(std::chrono::milliseconds(random.between(1'000, 300'000))));
  }
  for (auto _ : state) {
    // The new one lives on, any old one goes.
    JobId& place = ids[random.below(ids.size())];
    host.del(place);
    place = host.put(std::chrono::milliseconds(random.between(1'000, 300'000)));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(put_delayed_delete)->Arg(1'000)->Arg(1'000'000);

void put_reserve_waiting(benchmark::State& state) {
  Host host;
  for (auto _ : state) {
    host.now += Span(1'000);
    host.reserve(2);
    host.put();
    host.del(host.last.id, 2);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(put_reserve_waiting);

void put_far(benchmark::State& state) {
  BrokerOptions options;
  options.store_keeps_far_jobs = options.store_keeps_bodies = true;
  Host host(options);
  const auto before = mallinfo2();
  for (auto _ : state) host.put(std::chrono::hours(24));
  host.commit();
  host.recycled.reset();
  const auto after = mallinfo2();
  state.SetItemsProcessed(state.iterations());
  state.counters["bytes_kept"] = static_cast<double>(after.uordblks - before.uordblks) +
                                 static_cast<double>(after.hblkhd - before.hblkhd);
}
BENCHMARK(put_far);

void fire(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto host = std::make_unique<Host>();
    Random random(1);
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      host->put(std::chrono::milliseconds(random.between(1, 100'000)));
    }
    state.ResumeTiming();
    for (int second = 1; second <= 100; ++second) {
      host->broker.advance(host->now + std::chrono::seconds(second), ~std::size_t{0});
    }
    state.PauseTiming();
    host.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(fire)->Arg(100'000)->Unit(benchmark::kMillisecond);

void memory(benchmark::State& state) {
  for (auto _ : state) {
    auto host = std::make_unique<Host>();
    // One body for all: what a body itself takes is its size and 8 bytes.
    host->body = Body();
    const auto before = mallinfo2();
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      host->put(std::chrono::milliseconds(1'000 + i % 200'000));
      host->commit();
    }
    host->recycled.reset();
    const auto after = mallinfo2();
    const double heap = static_cast<double>(after.uordblks - before.uordblks) +
                        static_cast<double>(after.hblkhd - before.hblkhd);
    // An empty body is one allocation of the smallest size, 32 bytes with malloc's own.
    state.counters["bytes_per_job"] = heap / static_cast<double>(state.range(0)) - 32;
  }
}
BENCHMARK(memory)->Arg(1'000'000)->Arg(1'700'000)->Arg(1'900'000)->Iterations(1);

}  // namespace
}  // namespace carillon::broker

BENCHMARK_MAIN();
