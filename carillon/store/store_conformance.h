// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The suites that judge every store that keeps jobs: StoreConformance (what is stored, found,
/// recovered, in which order) and StoreFaults (what a failed commit does). A store's own test says
///
///     INSTANTIATE_TEST_SUITE_P(Memory, StoreConformance, ::testing::Values(kind),
///     store_kind_name); INSTANTIATE_TEST_SUITE_P(Memory, StoreFaults, ::testing::Values(kind),
///     store_kind_name);
///
/// and compiles store_conformance.cc, store_conformance_keys.cc, store_conformance_schedules.cc and
/// store_testing.cc with it.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "carillon/broker/store.h"
#include "carillon/store/store_testing.h"

namespace carillon::store::testing {

/// One partition of a store under test, and what happens to the machine it runs on.
class StoreBench {
 public:
  virtual ~StoreBench() = default;

  [[nodiscard]] virtual broker::Store& store() = 0;
  /// Ends the process in order, with nothing in flight, and opens what it left.
  virtual void restart() = 0;
  /// Kills the process and opens what it left.
  virtual void kill() = 0;
  /// The power fails: whatever was not synced is gone too.
  virtual void cut_power() = 0;

  /// From now on nothing can be written, for `code`.
  virtual void break_disk(ErrorCode code) = 0;
  virtual void repair_disk() = 0;
};

struct StoreKind {
  std::string name;
  std::function<std::unique_ptr<StoreBench>()> make;
};

inline std::string store_kind_name(const ::testing::TestParamInfo<StoreKind>& kind) {
  return kind.param.name;
}

class StoreConformance : public ::testing::TestWithParam<StoreKind> {
 protected:
  StoreConformance() : bench_(GetParam().make()), driver_(bench_->store()) {}

  void SetUp() override;
  /// Commits, which must succeed, and applies to the model as well.
  void commit(std::unique_ptr<broker::Batch> batch);
  void restart();
  void kill();
  void cut_power();

  const std::unique_ptr<StoreBench> bench_;
  StoreDriver driver_;
  MemoryState model_;
};

class StoreFaults : public StoreConformance {};

}  // namespace carillon::store::testing
