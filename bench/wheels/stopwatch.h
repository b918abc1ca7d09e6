// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Real time for phases of a benchmark, also while the clock that libraries read is a virtual one.

#include <cstddef>
#include <vector>

namespace carillon::bench {

/// Nanoseconds of the monotonic clock; reading it takes about 20.
[[nodiscard]] double real_ns();

/// Keeps this thread on one core: the last of those it may use, since the first ones serve most
/// interrupts. Throws BenchError.
void pin_to_one_core();

/// The resident memory of this process, in bytes, after free memory was given back.
[[nodiscard]] double resident_bytes();

/// Times the same phase over and over.
class Phase {
 public:
  explicit Phase(std::size_t operations) : operations_(static_cast<double>(operations)) {}

  template <class Work>
  void time(Work&& work) {
    const double begin = real_ns();
    work();
    add(real_ns() - begin);
  }
  /// The same for a part of a round; end_round() after its last.
  template <class Work>
  void resume(Work&& work) {
    const double begin = real_ns();
    work();
    add_part(real_ns() - begin);
  }
  void end_round();
  /// The median over the rounds, an operation.
  [[nodiscard]] double ns() const;
  /// What each round took, an operation.
  [[nodiscard]] const std::vector<double>& rounds() const { return rounds_; }

 private:
  void add(double ns);
  void add_part(double ns);

  double operations_;
  double parts_ = 0;  // of the round that has not ended
  std::vector<double> rounds_;
};

}  // namespace carillon::bench
