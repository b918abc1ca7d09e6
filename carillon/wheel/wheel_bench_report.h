// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For the micro-benchmarks of wheels: times the phase that counts, and reports the median of one
/// operation in nanoseconds, where Google Benchmark prints the mean of an iteration.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace carillon {

// The seconds that `phase` takes.
template <class Phase>
double timed(Phase&& phase) {
  const auto begin = std::chrono::steady_clock::now();
  phase();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The time of one operation, over the iterations of a benchmark.
class Report {
 public:
  Report(benchmark::State& state, std::size_t operations)
      : state_(state), operations_(static_cast<double>(operations)) {}

  void add(double seconds) {
    state_.SetIterationTime(seconds);
    ns_.push_back(seconds * 1e9 / operations_);
  }

  // Google Benchmark prints the mean time of an iteration; of interest are these.
  void finish(std::uint64_t checksum) {
    std::sort(ns_.begin(), ns_.end());
    state_.counters["median_ns"] = ns_[ns_.size() / 2];
    state_.counters["min_ns"] = ns_.front();
    state_.SetLabel("checksum " + std::to_string(checksum));
  }

 private:
  benchmark::State& state_;
  double operations_;
  std::vector<double> ns_;
};

}  // namespace carillon
