// SPDX-License-Identifier: Apache-2.0
// The pipeline over an engine that waits and fails when told: nothing here depends on timing.
#include "carillon/store/rocksdb/commit_pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace carillon::store {
namespace {

using broker::Batch;
using broker::CommitSeq;
using broker::JobId;

// Remembers what it was asked. Calls named in hold() stop at their beginning until let_go().
class FakeEngine final : public PipelineEngine {
 public:
  enum class Call { kApply, kSync, kRead };

  void hold(Call call) {
    const MutexLock lock(mutex_);
    held_[call] = true;
  }
  void let_go(Call call) {
    const MutexLock lock(mutex_);
    held_[call] = false;
    changed_.notify_all();
  }
  /// Waits until a call is being held.
  void wait_until_held(Call call) {
    const MutexLock lock(mutex_);
    while (waiting_[call] == 0) changed_.wait(mutex_);
  }
  void fail_next(Call call, ErrorCode code) {
    const MutexLock lock(mutex_);
    failing_[call] = Error{code, "injected"};
  }
  void refuse_seq(CommitSeq seq) {
    const MutexLock lock(mutex_);
    refused_seq_ = seq;
  }

  std::optional<Error> refuse(const Batch& batch) override {
    const MutexLock lock(mutex_);
    if (batch.seq != refused_seq_) return std::nullopt;
    return Error{ErrorCode::kNoSpace, "refused"};
  }
  Result<bool> apply(std::span<const PartitionBatch> group, bool may_wait) override {
    if (Result<void> result = enter(Call::kApply); !result) return std::move(result).error();
    const MutexLock lock(mutex_);
    if (!may_wait && applies_wait) return false;
    std::vector<CommitSeq> seqs;
    for (const PartitionBatch& part : group) seqs.push_back(part.batch->seq);
    groups.push_back(std::move(seqs));
    apply_thread = std::this_thread::get_id();
    applied += group.size();
    return true;
  }
  Result<void> sync() override {
    std::size_t covered = 0;
    {
      const MutexLock lock(mutex_);
      covered = applied;
    }
    Result<void> result = enter(Call::kSync);
    const MutexLock lock(mutex_);
    ++syncs;
    sync_thread = std::this_thread::get_id();
    if (result) durable = covered;
    return result;
  }
  void on_acknowledged() override {}
  void read(std::span<const PartitionRead> group) override {
    const Result<void> result = enter(Call::kRead);
    for (const PartitionRead& read : group) {
      if (const auto* fetch = std::get_if<FetchRequest>(read.request)) {
        fetch->done({});
      } else if (const auto* scan = std::get_if<ScanRequest>(read.request)) {
        scan->done(broker::FarChunk());
      }
    }
  }

  std::vector<std::vector<CommitSeq>> seen_groups() {
    const MutexLock lock(mutex_);
    return groups;
  }

  std::vector<std::vector<CommitSeq>> groups;
  std::size_t applied = 0;
  std::size_t durable = 0;
  std::size_t syncs = 0;
  bool applies_wait = false;  // Set while nothing runs.
  std::thread::id apply_thread;
  std::thread::id sync_thread;

 private:
  Result<void> enter(Call call) {
    const MutexLock lock(mutex_);
    ++waiting_[call];
    changed_.notify_all();
    while (held_[call]) changed_.wait(mutex_);
    --waiting_[call];
    if (const auto failing = failing_.extract(call)) return failing.mapped();
    return {};
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<Call, bool> held_;
  std::map<Call, int> waiting_;
  std::map<Call, Error> failing_;
  CommitSeq refused_seq_ = 0;
};

using Call = FakeEngine::Call;

// What a lane was told, in order: "+3" durable up to 3, "-4" commit 4 failed, "r" a read answered.
class Told {
 public:
  void add(std::string what) {
    const MutexLock lock(mutex_);
    all_.push_back(std::move(what));
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(std::size_t count) {
    const MutexLock lock(mutex_);
    while (all_.size() < count) changed_.wait(mutex_);
    return all_;
  }
  std::vector<std::string> now() {
    const MutexLock lock(mutex_);
    return all_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> all_;
};

class CommitPipelineTest : public ::testing::Test {
 protected:
  static CommitPipeline::Options threads_only() {
    CommitPipeline::Options options;
    options.small_mutations = 0;
    return options;
  }
  explicit CommitPipelineTest(CommitPipeline::Options options = threads_only())
      : pipeline_(engine_, options),
        lane_(pipeline_.open_lane(0)),
        other_(pipeline_.open_lane(1)) {}
  ~CommitPipelineTest() override {
    for (const Call call : {Call::kApply, Call::kSync, Call::kRead}) engine_.let_go(call);
    pipeline_.close_lane(lane_);
    pipeline_.close_lane(other_);
  }

  void commit(CommitPipeline::Lane* lane, Told& told, CommitSeq seq, std::size_t bytes = 0,
              std::size_t mutations = 1) {
    auto batch = std::make_unique<Batch>();
    batch->seq = seq;
    batch->bytes = bytes;
    batch->mutations.resize(mutations);
    pipeline_.commit(*lane, std::move(batch), [&told](CommitSeq up_to, Result<void> result) {
      told.add((result ? "+" : "-") + std::to_string(up_to));
    });
  }
  void commit(CommitSeq seq) { commit(lane_, told_, seq); }
  void read() {
    pipeline_.read(*lane_, FetchRequest{{}, [this](const auto&) { told_.add("r"); }});
  }
  // Waits until the pipeline has done with what it has told of.
  void settle() { EXPECT_TRUE(recover(lane_)); }
  Result<void> recover(CommitPipeline::Lane* lane, Result<void> reopened = {},
                       Result<void> loaded = {}) {
    return pipeline_.recover(
        *lane,
        [this, &reopened] {
          ++reopenings_;
          return reopened;
        },
        [&loaded] { return loaded; });
  }

  using Strings = std::vector<std::string>;
  using Groups = std::vector<std::vector<CommitSeq>>;
  FakeEngine engine_;
  CommitPipeline pipeline_;
  CommitPipeline::Lane* const lane_;
  CommitPipeline::Lane* const other_;
  Told told_;
  Told other_told_;
  int reopenings_ = 0;
};

TEST_F(CommitPipelineTest, AThreadThatHasAppliedGoesOnToSync) {
  commit(1);
  EXPECT_EQ(told_.wait_for(1), Strings{"+1"});
  EXPECT_EQ(engine_.apply_thread, engine_.sync_thread);
  EXPECT_NE(engine_.apply_thread, std::this_thread::get_id());
}

TEST_F(CommitPipelineTest, TheNextGroupIsAppliedWhileTheLastIsSyncedAndNotAcknowledgedWithIt) {
  engine_.hold(Call::kSync);
  commit(1);
  engine_.wait_until_held(Call::kSync);
  // Held in apply until both are queued, so that they are one group.
  engine_.hold(Call::kApply);
  commit(2);
  engine_.wait_until_held(Call::kApply);
  commit(3);
  commit(4);
  engine_.let_go(Call::kApply);
  // A read behind them tells when they are applied.
  read();
  EXPECT_EQ(told_.wait_for(1), Strings{"r"});
  EXPECT_EQ(engine_.seen_groups(), (Groups{{1}, {2}, {3, 4}}));
  engine_.let_go(Call::kSync);
  // One sync, one callback for the three.
  EXPECT_EQ(told_.wait_for(3), (Strings{"r", "+1", "+4"}));
  EXPECT_EQ(engine_.syncs, 2U);
  EXPECT_EQ(engine_.durable, 4U);
}

TEST_F(CommitPipelineTest, AReadWaitsForWhatIsBeforeItAndNotForASync) {
  engine_.hold(Call::kApply);
  engine_.hold(Call::kSync);
  commit(1);
  engine_.wait_until_held(Call::kApply);
  read();
  EXPECT_TRUE(told_.now().empty());
  engine_.let_go(Call::kApply);
  engine_.wait_until_held(Call::kSync);
  EXPECT_EQ(told_.wait_for(1), Strings{"r"});
  engine_.let_go(Call::kSync);
  EXPECT_EQ(told_.wait_for(2), (Strings{"r", "+1"}));
}

TEST_F(CommitPipelineTest, ALongReadHoldsUpNeitherCommitsNorSyncs) {
  engine_.hold(Call::kRead);
  read();
  engine_.wait_until_held(Call::kRead);
  for (CommitSeq seq = 1; seq <= 3; ++seq) {
    commit(seq);
    told_.wait_for(seq);
  }
  EXPECT_EQ(told_.now(), (Strings{"+1", "+2", "+3"}));
  engine_.let_go(Call::kRead);
  EXPECT_EQ(told_.wait_for(4).back(), "r");
}

class SmallGroups : public CommitPipelineTest {
 protected:
  SmallGroups()
      : CommitPipelineTest({.max_group_bytes = 1'000, .max_group_reads = 2, .small_mutations = 0}) {
  }
};

TEST_F(SmallGroups, AGroupIsBounded) {
  engine_.hold(Call::kApply);
  commit(1);
  engine_.wait_until_held(Call::kApply);
  commit(lane_, told_, 2, 900);
  commit(lane_, told_, 3, 900);
  commit(lane_, told_, 4, 5'000);
  commit(lane_, told_, 5, 1);
  read();
  read();
  commit(6);
  engine_.let_go(Call::kApply);
  std::vector<std::string> told;
  while (std::count(told.begin(), told.end(), "+6") + std::count(told.begin(), told.end(), "r") <
         3) {
    told = told_.wait_for(told.size() + 1);
  }
  EXPECT_EQ(engine_.seen_groups(), (Groups{{1}, {2, 3}, {4}, {5}, {6}}));
}

TEST_F(CommitPipelineTest, LanesShareAGroupAndASync) {
  engine_.hold(Call::kApply);
  commit(1);
  engine_.wait_until_held(Call::kApply);
  commit(2);
  commit(other_, other_told_, 1);
  commit(3);
  commit(other_, other_told_, 2);
  engine_.let_go(Call::kApply);
  EXPECT_EQ(other_told_.wait_for(1), Strings{"+2"});
  EXPECT_EQ(told_.wait_for(2), (Strings{"+1", "+3"}));
  EXPECT_EQ(engine_.seen_groups(), (Groups{{1}, {2, 1, 3, 2}}));
}

TEST_F(CommitPipelineTest, AFailedApplyFailsEverythingUntilRecoverReopens) {
  engine_.hold(Call::kApply);
  commit(1);
  engine_.wait_until_held(Call::kApply);
  commit(2);
  engine_.fail_next(Call::kApply, ErrorCode::kIo);
  engine_.let_go(Call::kApply);
  EXPECT_EQ(told_.wait_for(2), (Strings{"-1", "-2"}));
  EXPECT_EQ(engine_.syncs, 0U);
  EXPECT_TRUE(pipeline_.stats().failed);
  EXPECT_EQ(pipeline_.stats().last_error, "injected");
  commit(3);
  EXPECT_EQ(told_.wait_for(3).back(), "-3");
  EXPECT_FALSE(recover(lane_, Error{ErrorCode::kNoSpace, "still full"}));
  commit(4);
  EXPECT_EQ(told_.wait_for(4).back(), "-4");
  EXPECT_FALSE(recover(lane_, {}, Error{ErrorCode::kIo, "unreadable"}));
  commit(5);
  EXPECT_EQ(told_.wait_for(5).back(), "-5") << "what could not be read is not in service";
  EXPECT_TRUE(recover(lane_));
  EXPECT_EQ(reopenings_, 2) << "the engine had not failed again";
  commit(6);
  EXPECT_EQ(told_.wait_for(6).back(), "+6");
  EXPECT_EQ(pipeline_.stats().reopenings, 1U);
  EXPECT_EQ(pipeline_.stats().failed_commits, 5U);
}

TEST_F(CommitPipelineTest, AFailedSyncFailsWhatItWasForAndWhatWasAppliedMeanwhile) {
  engine_.hold(Call::kSync);
  commit(1);
  engine_.wait_until_held(Call::kSync);
  commit(2);
  read();
  told_.wait_for(1);  // 2 is applied
  engine_.fail_next(Call::kSync, ErrorCode::kIo);
  engine_.let_go(Call::kSync);
  EXPECT_EQ(told_.wait_for(3), (Strings{"r", "-1", "-2"}));
  EXPECT_EQ(engine_.syncs, 1U) << "nothing is synced after a failed sync";
  // Another lane had nothing in flight, but the engine has failed.
  commit(other_, other_told_, 1);
  EXPECT_EQ(other_told_.wait_for(1), Strings{"-1"});
  EXPECT_TRUE(recover(lane_));
  commit(3);
  EXPECT_EQ(told_.wait_for(4).back(), "+3");
  commit(other_, other_told_, 2);
  EXPECT_EQ(other_told_.wait_for(2).back(), "-2") << "it has not recovered yet";
  EXPECT_TRUE(recover(other_));
  EXPECT_EQ(reopenings_, 1);
  commit(other_, other_told_, 3);
  EXPECT_EQ(other_told_.wait_for(3).back(), "+3");
}

TEST_F(CommitPipelineTest, ARefusedCommitFailsItsLaneAndNoOther) {
  engine_.hold(Call::kApply);
  commit(1);
  engine_.wait_until_held(Call::kApply);
  engine_.refuse_seq(7);
  commit(2);
  commit(7);
  commit(8);
  commit(other_, other_told_, 1);
  engine_.let_go(Call::kApply);
  EXPECT_EQ(told_.wait_for(4), (Strings{"+1", "+2", "-7", "-8"}));
  EXPECT_EQ(other_told_.wait_for(1), Strings{"+1"});
  commit(9);
  EXPECT_EQ(told_.wait_for(5).back(), "-9");
  EXPECT_FALSE(pipeline_.stats().failed);
  EXPECT_TRUE(recover(lane_));
  EXPECT_EQ(reopenings_, 0);
  commit(10);
  EXPECT_EQ(told_.wait_for(6).back(), "+10");
  EXPECT_EQ(pipeline_.stats().refused_commits, 1U);
}

TEST_F(CommitPipelineTest, RecoverWaitsForTheCallbacksOfItsLane) {
  engine_.hold(Call::kSync);
  commit(1);
  engine_.wait_until_held(Call::kSync);
  std::future<Result<void>> recovered = std::async(std::launch::async, [this] {
    Result<void> result = recover(lane_);
    told_.add("recovered");
    return result;
  });
  engine_.let_go(Call::kSync);
  EXPECT_TRUE(recovered.get());
  EXPECT_EQ(told_.now(), (Strings{"+1", "recovered"}));
}

TEST_F(CommitPipelineTest, CommitsOfOtherLanesWaitWhileTheEngineIsReopened) {
  engine_.fail_next(Call::kApply, ErrorCode::kIo);
  commit(1);
  told_.wait_for(1);
  std::promise<void> reopening;
  std::promise<void> reopened;
  std::future<Result<void>> recovered = std::async(std::launch::async, [&] {
    return pipeline_.recover(
        *lane_,
        [&]() -> Result<void> {
          reopening.set_value();
          reopened.get_future().wait();
          return {};
        },
        []() -> Result<void> { return {}; });
  });
  reopening.get_future().wait();
  const std::size_t groups = engine_.seen_groups().size();
  commit(other_, other_told_, 1);
  EXPECT_EQ(engine_.seen_groups().size(), groups);
  EXPECT_TRUE(other_told_.now().empty());
  reopened.set_value();
  EXPECT_TRUE(recovered.get());
  EXPECT_EQ(other_told_.wait_for(1), Strings{"+1"});
}

class LoneCommits : public CommitPipelineTest {
 protected:
  LoneCommits()
      : CommitPipelineTest({.small_mutations = 2, .small_bytes = 100, .lone_mutations = 1}) {}
};

TEST_F(LoneCommits, AreDurableWhenCommitReturns) {
  commit(1);
  EXPECT_EQ(told_.now(), Strings{"+1"});
  EXPECT_EQ(engine_.apply_thread, std::this_thread::get_id());
  EXPECT_EQ(engine_.sync_thread, std::this_thread::get_id());
  commit(other_, other_told_, 1);
  EXPECT_EQ(other_told_.now(), Strings{"+1"});
}

TEST_F(LoneCommits, AreNotThoseThatFindAnotherInFlight) {
  engine_.hold(Call::kSync);
  commit(lane_, told_, 1, 101);  // too big to be one
  engine_.wait_until_held(Call::kSync);
  commit(2);
  EXPECT_TRUE(told_.now().empty());
  engine_.let_go(Call::kSync);
  EXPECT_EQ(told_.wait_for(2), (Strings{"+1", "+2"}));
}

TEST_F(LoneCommits, OthersMayCommitWhileOneRuns) {
  engine_.hold(Call::kSync);
  std::future<void> lone = std::async(std::launch::async, [this] { commit(1); });
  engine_.wait_until_held(Call::kSync);
  commit(other_, other_told_, 1);
  pipeline_.read(*other_, FetchRequest{{}, [this](const auto&) { other_told_.add("r"); }});
  EXPECT_EQ(other_told_.wait_for(1), Strings{"r"}) << "applied meanwhile";
  engine_.let_go(Call::kSync);
  lone.wait();
  EXPECT_EQ(told_.now(), Strings{"+1"});
  EXPECT_EQ(other_told_.wait_for(2), (Strings{"r", "+1"}));
}

TEST_F(LoneCommits, FailInsideCommit) {
  engine_.fail_next(Call::kSync, ErrorCode::kIo);
  commit(1);
  EXPECT_EQ(told_.now(), Strings{"-1"});
  commit(2);
  EXPECT_EQ(told_.now(), (Strings{"-1", "-2"}));
  EXPECT_TRUE(recover(lane_));
  commit(3);
  EXPECT_EQ(told_.now().back(), "+3");
}

TEST_F(LoneCommits, AreWrittenButNotSyncedByTheirCallerWhileAnotherSyncs) {
  engine_.hold(Call::kSync);
  commit(lane_, told_, 1, 101);
  engine_.wait_until_held(Call::kSync);
  commit(2);
  commit(3);
  EXPECT_EQ(engine_.seen_groups(), (std::vector<std::vector<CommitSeq>>{{1}, {2}, {3}}));
  EXPECT_EQ(engine_.apply_thread, std::this_thread::get_id());
  engine_.let_go(Call::kSync);
  EXPECT_EQ(told_.wait_for(2), (Strings{"+1", "+3"})) << "one sync covers both";
  EXPECT_EQ(engine_.syncs, 2U);
}

TEST_F(LoneCommits, EndWhenASyncHasCoveredMoreAndBeginAgainAfterOneThatDidNot) {
  commit(lane_, told_, 1, 0, 2);  // small, but more than one
  EXPECT_EQ(told_.wait_for(1), Strings{"+1"});
  EXPECT_EQ(engine_.apply_thread, std::this_thread::get_id());
  EXPECT_NE(engine_.sync_thread, std::this_thread::get_id());
  settle();
  commit(2);
  EXPECT_EQ(told_.wait_for(2).back(), "+2");
  EXPECT_NE(engine_.sync_thread, std::this_thread::get_id());
  settle();
  commit(3);
  EXPECT_EQ(told_.now().back(), "+3");
  EXPECT_EQ(engine_.sync_thread, std::this_thread::get_id());
}

TEST_F(LoneCommits, AreLeftToAThreadIfTheyWouldHaveToWait) {
  engine_.applies_wait = true;
  commit(1);
  EXPECT_EQ(told_.wait_for(1), Strings{"+1"});
  EXPECT_NE(engine_.apply_thread, std::this_thread::get_id());
}

class SlowDisk : public CommitPipelineTest {
 protected:
  // No sync is as quick as that.
  SlowDisk() : CommitPipelineTest({.small_mutations = 1, .lone_sync = Span(-1)}) {}
};

TEST_F(SlowDisk, NoCommitIsLone) {
  engine_.hold(Call::kSync);
  commit(1);  // would not return
  engine_.wait_until_held(Call::kSync);
  engine_.let_go(Call::kSync);
  EXPECT_EQ(told_.wait_for(1), Strings{"+1"});
  EXPECT_NE(engine_.sync_thread, std::this_thread::get_id());
}

TEST_F(CommitPipelineTest, ClosingALaneWaitsForItsCallbacks) {
  engine_.hold(Call::kSync);
  CommitPipeline::Lane* lane = pipeline_.open_lane(2);
  Told told;
  commit(lane, told, 1);
  engine_.wait_until_held(Call::kSync);
  std::future<void> closed = std::async(std::launch::async, [&] {
    pipeline_.close_lane(lane);
    told.add("closed");
  });
  engine_.let_go(Call::kSync);
  closed.wait();
  EXPECT_EQ(told.now(), (Strings{"+1", "closed"}));
}

}  // namespace
}  // namespace carillon::store
