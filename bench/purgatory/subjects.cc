// SPDX-License-Identifier: Apache-2.0
//
// The experiment with Purgatory on its Timer's wheel, and on a delay queue.

#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "bench/common/interrupt.h"
#include "bench/common/process.h"
#include "bench/purgatory/delay_queue_purgatory.h"
#include "bench/purgatory/experiment.h"
#include "carillon/base/clock.h"
#include "carillon/blocks/purgatory.h"
#include "carillon/timer/timer.h"

namespace carillon::bench {
namespace {

struct Payload {
  std::array<std::byte, kPayloadBytes> bytes;
};

// What a request does when it ends.
struct AtEnd {
  Fates* fates;
  std::uint32_t request;
  std::unique_ptr<Payload> payload;

  void operator()(bool expired) const { fates->end(request, expired); }
  void operator()(Outcome outcome) const { fates->end(request, outcome == Outcome::kExpired); }
};

// As in Kafka's experiment a request is completed by name: its condition says no until then.
class OnWheel {
 public:
  static constexpr std::string_view kName = "Purgatory";
  using Operation = Purgatory<std::uint64_t>::Operation;

  Operation watch(const RequestKeys& keys, AtEnd at_end) {
    return purgatory_.watch(keys, kRequestTimeout, [] { return false; }, std::move(at_end));
  }
  static void complete(Operation& operation) { operation.cancel(); }

 private:
  Timer timer_;
  Purgatory<std::uint64_t> purgatory_{timer_};
};

class OnDelayQueue {
 public:
  static constexpr std::string_view kName = "delay queue";
  using Operation = DelayQueuePurgatory::Ref;

  Operation watch(const RequestKeys& keys, AtEnd at_end) {
    return purgatory_.watch(
        keys, SteadyClock().now() + kRequestTimeout, [] { return false; }, std::move(at_end));
  }
  static void complete(Operation& operation) {
    operation->end(false);
    operation.reset();
  }

 private:
  DelayQueuePurgatory purgatory_;
};

// Waits until so many ms after `begin`.
void sleep_until_ms(std::int64_t begin, std::int64_t ms) {
  const std::int64_t left = begin + ms * 1'000'000 - now_ns();
  if (left > 0) sleep_seconds(static_cast<double>(left) / 1e9);
}

template <class Subject>
Measurement run_experiment(const Script& script) {
  constexpr std::int64_t kGiveUpNs = 60'000'000'000;
  struct Slot {
    std::atomic<bool> watched = false;
    typename Subject::Operation operation;
  };
  const std::size_t count = script.requests().size();
  std::vector<Slot> slots(count);
  Fates fates(count);
  auto subject = std::make_unique<Subject>();
  const double cpu_before = cpu_ms();
  const std::int64_t begin = now_ns() + 5'000'000;
  static_cast<void>(together(2, [&](std::size_t thread) {
    if (thread == 0) {
      for (std::size_t i = 0; i < count; ++i) {
        sleep_until_ms(begin, script.requests()[i].arrives_ms);
        auto payload = std::make_unique<Payload>();
        payload->bytes.fill(std::byte{1});
        fates.arrive(i, now_ns());
        slots[i].operation = subject->watch(
            script.keys(), {&fates, static_cast<std::uint32_t>(i), std::move(payload)});
        slots[i].watched.store(true, std::memory_order_release);
      }
      return;
    }
    for (const std::uint32_t i : script.completions()) {
      const Script::Request& request = script.requests()[i];
      sleep_until_ms(begin, request.arrives_ms + request.takes_ms);
      // The generator may be behind.
      while (!slots[i].watched.load(std::memory_order_acquire)) sleep_seconds(100e-6);
      Subject::complete(slots[i].operation);
    }
  }));
  while (!fates.all_ended() && now_ns() - begin < kGiveUpNs) sleep_seconds(1e-3);
  const double cpu = cpu_ms() - cpu_before;
  fates.verify(script);
  const double behind =
      static_cast<double>(fates.last_end() - begin - script.last_end_ms() * 1'000'000) / 1e9;
  const auto all = static_cast<double>(count);
  Measurement m;
  m.params = {{"requests", all}, {"seconds", script.seconds()}};
  m.values = {{"done_k", all / (script.seconds() + std::max(0.0, behind)) / 1e3},
              {"cpu_us", cpu * 1e3 / all},
              {"behind_ms", behind * 1e3},
              {"expired", 100 * static_cast<double>(fates.expired()) / all}};
  return m;
}

}  // namespace

const std::vector<PurgatoryEntry>& purgatories() {
  static const std::vector<PurgatoryEntry> kAll = {
      {OnWheel::kName, run_experiment<OnWheel>},
      {OnDelayQueue::kName, run_experiment<OnDelayQueue>},
  };
  return kAll;
}

}  // namespace carillon::bench
