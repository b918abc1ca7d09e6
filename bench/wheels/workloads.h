// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The workloads W1 to W5 for any subject, as docs/internals/benchmarks.md describes them. The
/// functions are instantiated beside each subject, so that the compiler sees through its calls.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/common/interrupt.h"
#include "bench/wheels/stopwatch.h"
#include "bench/wheels/subject.h"

namespace carillon::bench {

/// The timers of a workload and what keeps them.
template <Subject S>
class Population {
 public:
  using Timer = typename S::Timer;

  explicit Population(std::size_t count)
      : subject(count), timers(std::make_unique<Timer[]>(count)), count_(count) {
    for (std::size_t id = 0; id < count; ++id) subject.prepare(timers[id]);
  }
  ~Population() {
    for (std::size_t id = 0; id < count_; ++id) subject.dispose(timers[id]);
  }
  Population(const Population&) = delete;
  Population& operator=(const Population&) = delete;

  [[nodiscard]] std::uint64_t id_of(const Timer& timer) const {
    return static_cast<std::uint64_t>(&timer - timers.get());
  }

  S subject;
  std::unique_ptr<Timer[]> timers;

 private:
  std::size_t count_;
};

/// What the caller of cancel() and refresh() has in hand, in the order of use: the addresses of the
/// timers, or, of subjects that give out handles, the handles. What it costs the caller to find
/// them in a table of his own is no timer's cost.
template <Subject S>
class Named {
 public:
  using Timer = typename S::Timer;

  explicit Named(std::size_t most) { names_.reserve(most); }

  void take(Population<S>& population, std::span<const std::uint32_t> ids) {
    names_.clear();
    for (const std::uint32_t id : ids) {
      if constexpr (kByValue) {
        names_.push_back(population.timers[id]);
      } else {
        names_.push_back(&population.timers[id]);
      }
    }
  }
  template <class Use>
  void each(Use&& use) {
    for (auto& name : names_) {
      if constexpr (kByValue) {
        use(name);
      } else {
        use(*name);
      }
    }
  }

 private:
  static constexpr bool kByValue = requires { S::kGivesOutHandles; };

  std::vector<std::conditional_t<kByValue, Timer, Timer*>> names_;
};

/// Adds what the subject's exactness allows to compare.
template <Subject S>
void note(Checksum& sum, std::uint64_t id, Tick tick) {
  if constexpr (S::kLateShift == 0) {
    sum.add(id, tick);
  } else {
    sum.add_late(id, tick);
  }
}

/// Throws unless `got` is what was foreseen. Late subjects: each once, none early, and all of them
/// together late by no more than `allowance` ticks.
template <Subject S>
void require_foreseen(std::string_view workload, std::size_t n, const Checksum& got,
                      const Checksum& foreseen, Tick allowance) {
  bool same = got.count == foreseen.count;
  if constexpr (S::kLateShift == 0) {
    same = same && got.sum == foreseen.sum;
  } else {
    same = same && got.ids == foreseen.ids && got.ticks >= foreseen.ticks &&
           got.ticks <= foreseen.ticks + allowance;
  }
  if (same) return;
  throw BenchError(
      fmt::format("{} has not done the work of {} with {}: expired {} (checksum {:016x}), not {} "
                  "({:016x})",
                  S::kName, workload, n, got.count, S::kLateShift == 0 ? got.sum : got.ids,
                  foreseen.count, S::kLateShift == 0 ? foreseen.sum : foreseen.ids));
}

/// The ticks by which timers of `delays` ticks altogether may be late.
template <Subject S>
constexpr Tick allowance(Tick delays, std::uint64_t count) {
  return S::kLateShift == 0 ? 0 : (delays >> S::kLateShift) + count;
}

template <Subject S>
Measurement measured(std::string_view bench, std::size_t n,
                     std::vector<std::pair<std::string, double>> values) {
  Measurement m;
  m.bench = bench;
  m.peer = S::kName;
  m.params = {{"n", static_cast<double>(n)}};
  m.values = std::move(values);
  return m;
}

template <Subject S>
void schedule_all(Population<S>& population, const Script& script, std::size_t round) {
  S& subject = population.subject;
  const Tick base = subject.now();
  const auto delays = script.delays_of(round);
  for (std::size_t id = 0; id < script.timers; ++id) {
    subject.schedule(population.timers[id], base + delays[id]);
  }
}

/// Grows the memory that grows with use, before the first measurement. The cheapest way to cancel
/// is backwards.
template <Subject S, class Before>
void warm_up(Population<S>& population, const Script& script, Before&& before_cancel) {
  schedule_all(population, script, 0);
  before_cancel();
  for (std::size_t id = script.timers; id-- > 0;) {
    population.subject.cancel(population.timers[id]);
  }
}

template <Subject S>
Measurement run_w1(Population<S>& population, const Script& script, double bytes_before) {
  using Timer = typename S::Timer;
  S& subject = population.subject;
  const std::size_t n = script.timers;
  double bytes = 0;
  warm_up(population, script, [&] {
    bytes = (resident_bytes() - bytes_before) / static_cast<double>(n) -
            static_cast<double>(S::kPayloadBytes);
  });

  Named<S> names(n);
  Phase schedule(n);
  Phase cancel(n);
  Phase settle(n);
  std::vector<double> in_all;
  std::uint64_t expired = 0;
  for (std::size_t round = 0; round < script.rounds; ++round) {
    const Tick base = subject.now();
    schedule.time([&] { schedule_all(population, script, round); });
    names.take(population, script.order_of(round));
    cancel.time([&] { names.each([&](Timer& timer) { subject.cancel(timer); }); });
    settle.time([&] {
      subject.advance(base + kLongestDelay + (allowance<S>(kLongestDelay, 1)),
                      [&](Timer&, Tick) { ++expired; });
    });
    in_all.push_back(schedule.rounds().back() + cancel.rounds().back() + settle.rounds().back());
  }
  if (expired != 0) {
    throw BenchError(
        fmt::format("{}: {} cancelled timers of {} expired in W1", S::kName, expired, n));
  }
  return measured<S>("W1", n,
                     {{"schedule_ns", schedule.ns()},
                      {"cancel_ns", cancel.ns()},
                      {"settle_ns", settle.ns()},
                      {"in_all_ns", summarize(in_all).median},
                      {"hook_bytes", static_cast<double>(sizeof(Timer))},
                      {"bytes", bytes}});
}

template <Subject S>
Measurement run_w3(Population<S>& population, const Script& script) {
  using Timer = typename S::Timer;
  S& subject = population.subject;
  Phase expire(script.timers);
  const Tick end = kLongestDelay + allowance<S>(kLongestDelay, 1);
  Checksum expired;
  for (std::size_t round = 0; round < script.expiry_rounds; ++round) {
    const Tick base = subject.now();
    schedule_all(population, script, round);
    const auto sink = [&](Timer& timer, Tick tick) {
      note<S>(expired, population.id_of(timer), tick - base);
    };
    expire.time([&] {
      if constexpr (S::kDrivesItself) {
        subject.advance(base + end, sink);
      } else {
        for (Tick tick = 1; tick <= end; ++tick) subject.advance(base + tick, sink);
      }
    });
  }
  require_foreseen<S>("W3", script.timers, expired, script.expired,
                      allowance<S>(script.expired.ticks, script.expired.count));
  return measured<S>("W3", script.timers, {{"expire_ns", expire.ns()}});
}

template <Subject S>
Measurement run_w2(Population<S>& population, const Script& script, bool verify) {
  using Timer = typename S::Timer;
  S& subject = population.subject;
  const std::size_t n = script.timers;
  const Tick base = subject.now();
  for (std::size_t i = 0; i < n; ++i) {
    const Tick tick = base + 1 + kIdleTimeout * i / n;
    if (subject.now() < tick) subject.advance(tick, [](Timer&, Tick) {});
    subject.schedule(population.timers[script.order[i]], tick + kIdleTimeout);
  }
  subject.advance(base + kIdleTimeout, [](Timer&, Tick) {});

  Checksum lapsed;
  Tick now = base + kIdleTimeout;
  const auto sink = [&](Timer& timer, Tick tick) {
    note<S>(lapsed, population.id_of(timer), tick - base);
    subject.schedule(timer, now + kIdleTimeout);
  };
  Named<S> names(kRefreshesPerTick);
  Phase refresh(script.picks.size());
  for (std::size_t i = 0; i < script.picks.size(); i += kRefreshesPerTick) {
    names.take(population, std::span(script.picks).subspan(i, kRefreshesPerTick));
    refresh.resume([&] {
      names.each([&](Timer& timer) { subject.refresh(timer, now + kIdleTimeout); });
      subject.advance(++now, sink);
    });
  }
  refresh.end_round();
  // What is late rearms late, and may have been refreshed before it came: not to be foreseen.
  if constexpr (S::kLateShift == 0) {
    require_foreseen<S>("W2", n, lapsed, script.lapsed, 0);
  }
  if (verify) {
    Checksum drained;
    const Tick end = subject.now() + kIdleTimeout;
    subject.advance(end + allowance<S>(kIdleTimeout, 1), [&](Timer& timer, Tick tick) {
      note<S>(drained, population.id_of(timer), tick - base);
    });
    const Tick late = allowance<S>(2 * kIdleTimeout * n, n);
    require_foreseen<S>("W2, when no more comes,", n, drained, script.drained, late);
  } else {
    for (std::size_t id = n; id-- > 0;) subject.cancel(population.timers[id]);
  }
  return measured<S>("W2", n, {{"refresh_ns", refresh.ns()}});
}

/// W1 to W3; of subjects for equal timeouts, W2.
template <Subject S>
std::vector<Measurement> run(const Script& script, const Wanted& wanted) {
  std::vector<Measurement> done;
  const double before = resident_bytes();
  Population<S> population(script.timers);
  if constexpr (!S::kEqualTimeouts) {
    if (wanted.w1) done.push_back(run_w1(population, script, before));
    if (wanted.w3) {
      if (!wanted.w1) warm_up(population, script, [] {});
      done.push_back(run_w3(population, script));
    }
  }
  if (wanted.w2) done.push_back(run_w2(population, script, wanted.verify));
  return done;
}

template <Subject S>
Measurement run_sparse(const SparseScript& script) {
  using Timer = typename S::Timer;
  constexpr std::size_t kTimers = SparseScript::kTimers;
  Population<S> population(kTimers);
  S& subject = population.subject;
  Checksum expired;
  Phase round(kTimers);
  for (std::size_t first = 0; first < script.delays.size(); first += kTimers) {
    const Tick base = subject.now();
    for (std::size_t i = 0; i < kTimers; ++i) {
      subject.schedule(population.timers[i], base + script.delays[first + i]);
    }
    const auto sink = [&](Timer& timer, Tick tick) {
      note<S>(expired, first + population.id_of(timer), tick - base);
    };
    round.time([&] {
      if constexpr (S::kDrivesItself) {
        subject.advance(base + script.span, sink);
      } else {
        while (const auto next = subject.next_deadline()) subject.advance(*next, sink);
      }
    });
  }
  require_foreseen<S>("W4", script.delays.size(), expired, script.expired,
                      allowance<S>(script.expired.ticks, script.delays.size()));
  return measured<S>("W4", kTimers, {{"expire_ns", round.ns()}});
}

/// What a server keeps of a connection: the timer, and 64 bytes of its own.
template <Subject S>
struct Connection : S::Timer {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::uint64_t last_seen = 0;
  std::uint64_t id = 0;
  std::uint64_t more[4] = {};
};

/// Lives the lives of `script`; what it cost, and which timers expired.
template <Subject S>
std::pair<Measurement, Checksum> time_loop(const LoopScript& script) {
  using Timer = typename S::Timer;
  S subject(script.connections);
  std::vector<std::unique_ptr<Connection<S>>> connections(script.connections);
  for (std::size_t id = 0; id < connections.size(); ++id) {
    connections[id] = std::make_unique<Connection<S>>();
    connections[id]->id = id;
    subject.prepare(*connections[id]);
  }
  // An event brings its connection with it, as epoll's does.
  struct Event {
    Connection<S>* connection;
    LoopScript::Event what;
  };
  std::vector<Event> events;
  events.reserve(script.events.size());
  for (const std::uint32_t event : script.events) {
    events.push_back({connections[event / 4].get(), static_cast<LoopScript::Event>(event % 4)});
  }

  Checksum expired;
  const Tick base = subject.now();
  const auto sink = [&](Timer& timer, Tick tick) {
    auto& connection = static_cast<Connection<S>&>(timer);
    ++connection.more[0];
    note<S>(expired, connection.id, tick - base);
  };
  Phase loop(script.events.size() + script.expired.count);
  loop.time([&] {
    for (Tick tick = 1; tick <= script.ticks; ++tick) {
      const Tick now = base + tick;
      subject.advance(now, sink);
      for (std::uint32_t i = script.begins[tick]; i < script.begins[tick + 1]; ++i) {
        Connection<S>& connection = *events[i].connection;
        switch (events[i].what) {
          case LoopScript::kOpen:
            connection.last_seen = now;
            subject.schedule(connection, now + kIdleTimeout);
            break;
          case LoopScript::kPacket:
            ++connection.packets;
            connection.bytes += i;
            connection.last_seen = now;
            subject.refresh(connection, now + kIdleTimeout);
            break;
          case LoopScript::kClose:
            ++connection.more[0];
            subject.cancel(connection);
            break;
        }
      }
    }
    if constexpr (S::kLateShift != 0) {
      subject.advance(base + script.ticks + allowance<S>(kIdleTimeout, 1), sink);
    }
  });
  for (const auto& connection : connections) subject.dispose(*connection);
  return {measured<S>("W5", script.connections, {{"event_ns", loop.ns()}}), expired};
}

template <Subject S>
Measurement run_loop(const LoopScript& script) {
  auto [measurement, expired] = time_loop<S>(script);
  require_foreseen<S>("W5", script.connections, expired, script.expired,
                      allowance<S>(kIdleTimeout * script.expired.count, script.expired.count));
  return std::move(measurement);
}

template <Subject S>
SubjectEntry entry_of() {
  SubjectEntry entry{S::kName, S::kFamily, S::kEqualTimeouts, run<S>, nullptr, run_loop<S>};
  if constexpr (!S::kEqualTimeouts) entry.run_sparse = run_sparse<S>;
  return entry;
}

}  // namespace carillon::bench
