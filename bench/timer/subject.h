// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who is measured: our timer, other timers in C++, and those of the JVM.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "carillon/base/time.h"

namespace carillon::bench {

inline constexpr std::string_view kOurs = "carillon::Timer";

/// How much a workload does in one process.
struct Load {
  std::string_view bench;                  ///< "T1" .. "T8".
  std::size_t timers = 0;                  ///< T1, T2, T4: in all.
  std::vector<std::size_t> threads = {1};  ///< A line of results for each.
  std::size_t pending = 0;                 ///< T3: meanwhile.
  int rounds = 1;                          ///< T1: those that are warm; the median counts.
  double seconds = 0;                      ///< T3 to T6, T8: of the timed part.
  double rate = 0;                         ///< T8: pairs a second.
  Span delay = {};                         ///< Of timers that are not to fire.
};

/// A timer in C++. Constructed with its threads running, if it has any.
///
///     add       schedules a callable, which is trivially copyable and has at most 16 bytes, from
///               any thread
///     cancel    from any thread; whether the callable will never run
///     close     ends it; returns how many were pending, cancelled ones not included. Called once,
///               when no other thread uses it
template <class S>
concept TimerSubject =
    requires(S subject, Span delay, void (*callback)(), typename S::Handle& handle) {
      { S::kName } -> std::convertible_to<std::string_view>;
      S();
      { subject.add(delay, callback) } -> std::same_as<typename S::Handle>;
      { subject.cancel(handle) } -> std::same_as<bool>;
      { subject.close() } -> std::same_as<std::size_t>;
    };

/// A subject as the program sees it.
struct SubjectEntry {
  std::string_view name;
  /// Does a workload in this process. A line for each of its thread counts, of params and values.
  /// Throws BenchError if what came of it is not what was to be done. Null: one of the JVM.
  std::vector<Measurement> (*run)(const Load&);

  [[nodiscard]] bool in_jvm() const noexcept { return run == nullptr; }
};

/// All of them: ours first, then those in C++, then those of the JVM.
[[nodiscard]] const std::vector<SubjectEntry>& subjects();

/// Whether a workload is worth measuring with a subject. The same timer with another setting is,
/// only where the setting matters.
[[nodiscard]] bool takes_part(const SubjectEntry& subject, const Load& load);

/// Runs a workload in a fresh process. Throws BenchError, Interrupted.
[[nodiscard]] std::vector<Measurement> run_in_child(const SubjectEntry& subject, const Load& load);

// A file each: their headers are slow to compile.
[[nodiscard]] SubjectEntry carillon_subject();
[[nodiscard]] SubjectEntry carillon_inline_subject();
[[nodiscard]] SubjectEntry heap_subject();
[[nodiscard]] SubjectEntry asio_subject();

}  // namespace carillon::bench
