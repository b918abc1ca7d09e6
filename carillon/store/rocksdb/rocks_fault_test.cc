// SPDX-License-Identifier: Apache-2.0
// The N-th change of the disk fails, for N = 1, 2, 3 ... until a whole life of a folder passes
// without having met the fault (as SQLite tests itself). After each failure nothing acknowledged is
// missing, nothing is there that was not submitted, and recover() heals once the fault has ended.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

using testing::FaultFileSystem;
using testing::FaultyDatabase;
using testing::RandomProgram;
using testing::Recovered;
using testing::same_state;
using testing::StoreDriver;

struct FaultPlan {
  FaultFileSystem::Fault fault;
  bool sticky;
  const char* name;
};

class NthChangeFails : public ::testing::TestWithParam<FaultPlan> {};

// One life of a folder: created, filled, flushed, stopped, opened again, worked on, killed, opened.
class Life {
 public:
  explicit Life(std::uint64_t seed) : program_(seed) {
    // So small that the program flushes and compacts.
    database_.options.memtable_bytes = 1;  // The least: 64 KiB a family.
    database_.options.max_log_bytes = 192 << 10;
  }

  FaultyDatabase& database() { return database_; }

  /// Returns whether it went to its end.
  bool run() {
    if (!open_and_check("first start")) return false;
    if (!work(30)) return false;
    database_.close();
    if (!open_and_check("after a stop")) return false;
    if (!work(15)) return false;
    database_.kill();
    if (!open_and_check("after a kill")) return false;
    if (!work(5)) return false;
    database_.cut_power();
    if (!open_and_check("after a power cut")) return false;
    testing::expect_holds(driver(), program_.state(), "at the end");
    return !::testing::Test::HasFailure();
  }

 private:
  StoreDriver& driver() {
    driver_.use(database_.store());
    return driver_;
  }

  bool open_and_check(const std::string& what) {
    Result<void> opened = database_.try_open();
    if (!opened) {
      EXPECT_TRUE(database_.disk().struck()) << what << ": " << opened.error().message;
      check_code(opened.error());
      // The operator repairs the disk and starts it again.
      database_.disk().heal();
      opened = database_.try_open();
      EXPECT_TRUE(opened.has_value()) << what << ": " << opened.error().message;
      if (!opened) return false;
    }
    return recover(what);
  }

  // What is there must be what was acknowledged, or that and some of what was submitted after it.
  bool recover(const std::string& what) {
    Recovered recovered;
    Result<void> result = driver().recover(recovered);
    if (!result) {
      EXPECT_TRUE(database_.disk().struck()) << what << ": " << result.error().message;
      check_code(result.error());
      database_.disk().heal();
      recovered = {};
      result = driver().recover(recovered);
      EXPECT_TRUE(result.has_value()) << what << ": " << result.error().message;
      if (!result) return false;
    }
    if (unsure_ && same_state(driver(), recovered, *unsure_)) {
      acknowledged_ = *unsure_;
    } else {
      EXPECT_TRUE(same_state(driver(), recovered, acknowledged_))
          << what << ": " << recovered.jobs.size() << " jobs recovered";
    }
    unsure_.reset();
    program_.continue_from(acknowledged_);
    if (!::testing::Test::HasFailure()) testing::expect_holds(driver(), acknowledged_, what);
    return !::testing::Test::HasFailure();
  }

  bool work(int steps) {
    for (int step = 0; step < steps; ++step) {
      std::unique_ptr<broker::Batch> batch = program_.next_batch();
      const Result<void> result = driver().commit(std::move(batch));
      if (result) {
        acknowledged_ = program_.state();
        continue;
      }
      EXPECT_TRUE(database_.disk().struck()) << result.error().message;
      check_code(result.error());
      unsure_ = program_.state();
      if (!recover("commit failed at step " + std::to_string(step))) return false;
    }
    return true;
  }

  void check_code(const Error& error) {
    EXPECT_TRUE(error.code == ErrorCode::kNoSpace || error.code == ErrorCode::kIo)
        << to_string(error.code) << ": " << error.message;
  }

  FaultyDatabase database_;
  RandomProgram program_;
  MemoryState acknowledged_;
  std::optional<MemoryState> unsure_;
  // Opened later; use() comes before every use.
  StoreDriver driver_;
};

TEST_P(NthChangeFails, AndNothingAcknowledgedIsLost) {
  const FaultPlan plan = GetParam();
  // CARILLON_FAULT_STEP=1 tries every N (minutes); by default they thin out.
  const char* step_text = std::getenv("CARILLON_FAULT_STEP");
  const std::uint64_t step = step_text != nullptr ? std::strtoull(step_text, nullptr, 10) : 0;
  bool reached = true;
  std::uint64_t nth = 1;
  for (; reached; nth += step > 0 ? step : 1 + nth / 10) {
    SCOPED_TRACE(std::string(plan.name) + ", change " + std::to_string(nth));
    Life life(7);
    if (nth % 2 == 0) life.database().options.small_mutations = 0;
    life.database().disk().fail_change(nth, plan.fault, plan.sticky);
    ASSERT_TRUE(life.run());
    reached = life.database().disk().changes() >= nth;
  }
  EXPECT_GT(nth, 150U) << "the program is too short to mean anything";
}

INSTANTIATE_TEST_SUITE_P(
    Faults, NthChangeFails,
    ::testing::Values(FaultPlan{FaultFileSystem::Fault::kIo, false, "IoOnce"},
                      FaultPlan{FaultFileSystem::Fault::kIo, true, "IoUntilRepaired"},
                      FaultPlan{FaultFileSystem::Fault::kNoSpace, false, "NoSpaceOnce"},
                      FaultPlan{FaultFileSystem::Fault::kNoSpace, true, "NoSpaceUntilThereIs"}),
    [](const ::testing::TestParamInfo<FaultPlan>& plan) { return plan.param.name; });

}  // namespace
}  // namespace carillon::store
