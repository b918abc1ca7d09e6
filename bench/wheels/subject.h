// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What is measured, behind one interface: our wheels, the heaps, and the timers of event loops.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "bench/wheels/script.h"

namespace carillon::bench {

enum class Family { kWheel, kHeap, kLibrary };

/// One way of keeping timers. `Timer` is what a user puts into his object for it; the sink gets it
/// back as `sink(Timer&, Tick)`, with the tick at which it expires.
///
///     kName, kFamily   as printed
///     kEqualTimeouts   only good for timers of one and the same timeout
///     kDrivesItself    advance() goes from event to event by itself, as an event loop does, so
///                      that it need not be called tick by tick
///     kLateShift       0: exact; s: late by at most delay / 2^s
///     kPayloadBytes    of the bytes a timer takes, those that are the user's
///     kGivesOutHandles if there: a copy of a scheduled Timer names the timer as well as itself
///
/// prepare() is called once for each timer before, dispose() once after; both are not measured.
/// refresh() moves a scheduled timer to a later deadline.
template <class S>
concept Subject = requires(S subject, typename S::Timer& timer, Tick tick,
                           void (*sink)(typename S::Timer&, Tick)) {
  S(std::size_t{});
  { S::kName } -> std::convertible_to<std::string_view>;
  { S::kFamily } -> std::convertible_to<Family>;
  { S::kEqualTimeouts } -> std::convertible_to<bool>;
  { S::kDrivesItself } -> std::convertible_to<bool>;
  { S::kLateShift } -> std::convertible_to<int>;
  { S::kPayloadBytes } -> std::convertible_to<std::size_t>;
  subject.prepare(timer);
  subject.dispose(timer);
  subject.schedule(timer, tick);
  subject.cancel(timer);
  subject.refresh(timer, tick);
  subject.advance(tick, sink);
  { subject.now() } -> std::same_as<Tick>;
};

/// Which of W1, W2, W3 to do; they share a population.
struct Wanted {
  bool w1 = true;
  bool w2 = true;
  bool w3 = true;
  /// Expire everything once more after W2, to see that every refresh took effect.
  bool verify = true;
};

/// A subject as the program sees it. Each function does a workload once and returns what it cost;
/// it throws BenchError if what came of it is not what the script foresees.
struct SubjectEntry {
  std::string_view name;
  Family family;
  bool equal_timeouts;
  /// One line for each workload done: bench "W1" .. "W3".
  std::vector<Measurement> (*run)(const Script&, const Wanted&);
  Measurement (*run_sparse)(const SparseScript&);  ///< "W4"
  Measurement (*run_loop)(const LoopScript&);      ///< "W5"
};

/// All of them: ours first, then heaps, then libraries.
[[nodiscard]] const std::vector<SubjectEntry>& subjects();

// A file each: in one, the compiler inlines less of each of them the more there are.
[[nodiscard]] SubjectEntry hierarchical_subject();
[[nodiscard]] SubjectEntry pooled_subject();
[[nodiscard]] SubjectEntry linux_subject();
[[nodiscard]] SubjectEntry kafka_subject();
[[nodiscard]] SubjectEntry wall_clock_subject();
[[nodiscard]] SubjectEntry hashed_subject();
[[nodiscard]] SubjectEntry coarse_subject();
[[nodiscard]] std::vector<SubjectEntry> heap_subjects();
[[nodiscard]] SubjectEntry asio_subject();
[[nodiscard]] SubjectEntry libev_subject();
[[nodiscard]] std::vector<SubjectEntry> libevent_subjects();
[[nodiscard]] SubjectEntry libuv_subject();

}  // namespace carillon::bench
