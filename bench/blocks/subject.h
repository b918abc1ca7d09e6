// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who is measured by bench_blocks, and what is asked of each: the blocks, and what people write in
/// their place.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/common/ledger.h"
#include "carillon/base/time.h"

namespace carillon::bench {

enum class Part : std::uint8_t {
  kRate,    ///< Operations a second, by threads.
  kMemory,  ///< Bytes an item.
  kHerd,    ///< All items expire at one instant.
};

/// What is done in one process.
struct Load {
  std::string_view bench;  ///< The block: "Window".
  std::string_view cell;   ///< What results are listed under.
  Part part = Part::kRate;
  std::size_t items = 0;
  std::vector<std::size_t> threads = {};  ///< Of kRate.
  double seconds = 0;                     ///< Of kRate, for each number of threads.
  /// Of a limiter under kRate: each key has had all its permits, and every operation is refused.
  bool refused = false;
  /// Of kHerd: the time to add the items in.
  Span lead = std::chrono::seconds(1);
};

/// How a subject is made.
struct Setup {
  std::size_t items = 0;
  Part part = Part::kRate;
  bool refused = false;
};

/// Items, numbered from 0, that expire.
///
///     add(first, count, deadline)   items that will expire at `deadline`
///     use(item, number)             the operation, the thread's so manieth; whether it went well,
///                                   as for an item that is there it does, unless Setup::refused
///     gone()                        items that have expired and are no longer held
///     kComesAndGoes                 items under kRate expire, too, and are made anew by use()
///     expect(item)                  if there is one: that item is among the next to be used
///     kMostItems                    if there is one: more are not asked of it
///     help()                        does what needs a thread of the user's to have them expire
template <class S>
concept BlockSubject = requires(S subject, std::size_t item, std::uint64_t number, Instant at) {
  { S::kName } -> std::convertible_to<std::string_view>;
  { S::kBench } -> std::convertible_to<std::string_view>;
  { S::kComesAndGoes } -> std::convertible_to<bool>;
  S(Setup());
  subject.add(item, item, at);
  { subject.use(item, number) } -> std::same_as<bool>;
  { subject.gone() } -> std::same_as<std::size_t>;
  subject.help();
};

/// A subject as the program sees it.
struct SubjectEntry {
  std::string_view bench;
  std::string_view name;
  /// Does a load in this process. Measurements of params and values. Throws BenchError if what came
  /// of it is not what was to be done.
  std::vector<Measurement> (*run)(const Load&);
  /// More than these it is not asked to hold.
  std::size_t most_items = SIZE_MAX;
};

/// All of them: ours first in each bench.
[[nodiscard]] const std::vector<SubjectEntry>& subjects();

/// Runs a load in a fresh process. Throws BenchError, Interrupted.
[[nodiscard]] std::vector<Measurement> run_in_child(const SubjectEntry& subject, const Load& load);

// A file each.
void add_idle_subjects(std::vector<SubjectEntry>& entries);
void add_lease_subjects(std::vector<SubjectEntry>& entries);
void add_limiter_subjects(std::vector<SubjectEntry>& entries);
void add_map_subjects(std::vector<SubjectEntry>& entries);
void add_purgatory_subjects(std::vector<SubjectEntry>& entries);
void add_retry_subjects(std::vector<SubjectEntry>& entries);

}  // namespace carillon::bench
