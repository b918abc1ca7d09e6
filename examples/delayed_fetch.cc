// SPDX-License-Identifier: Apache-2.0
// Consumers that fetch from a log, and wait until there is enough in it, or for 200 ms: what
// Kafka's purgatory is for. Time is simulated.

#include <cstdio>
#include <map>
#include <string>

#include "carillon/blocks/purgatory.h"
#include "carillon/timer/manual_driver.h"

using namespace std::chrono_literals;

int main() {
  carillon::ManualDriver time;
  carillon::Timer timer(time.options());
  const carillon::Instant start = time.now();
  carillon::Purgatory<> purgatory(timer);
  std::map<std::string, int> log;  // records of each topic

  // Answers when there are `wanted` records of both topics together, or after 200 ms.
  const auto fetch = [&](const char* consumer, int wanted) {
    purgatory.watch(
        {"orders", "payments"}, 200ms,
        [&log, wanted] { return log["orders"] + log["payments"] >= wanted; },
        [&, consumer](carillon::Outcome outcome) {
          std::printf("%3d ms: %s gets %d records, %s\n",
                      static_cast<int>((time.now() - start) / 1ms), consumer,
                      log["orders"] + log["payments"],
                      outcome == carillon::Outcome::kCompleted ? "enough" : "time is up");
        });
  };
  const auto append = [&](const char* topic) {
    ++log[topic];
    purgatory.check(topic);  // those that wait for this topic look again
  };

  fetch("one", 1);
  fetch("two", 3);
  fetch("three", 100);
  for (const char* topic : {"orders", "payments", "orders"}) {
    time.advance(50ms);
    append(topic);
  }
  std::printf("%zu waiting, under %zu keys\n", purgatory.watched(), purgatory.keys());
  time.advance(1s);
  std::printf("%zu waiting, under %zu keys; %zu timers\n", purgatory.watched(), purgatory.keys(),
              timer.pending());
}
