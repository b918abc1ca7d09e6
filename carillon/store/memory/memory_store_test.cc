// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "carillon/store/store_conformance.h"

namespace carillon::store {
namespace {

using broker::CommitSeq;
using broker::JobId;
using broker::Place;
using broker::StoredJob;
using testing::erase_far;
using testing::erase_near;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::settle;
using testing::update;

class MemoryBench final : public testing::StoreBench {
 public:
  MemoryBench()
      : disk_(std::make_shared<MemoryDisk>()), store_(std::make_unique<MemoryStore>(disk_)) {}

  broker::Store& store() override { return *store_; }
  void restart() override { reopen(); }
  void kill() override { reopen(); }
  void cut_power() override { reopen(); }
  void break_disk(ErrorCode code) override {
    const Error error{code, "the disk is broken"};
    store_->fail_commit(1, error);
    store_->fail_recover(error);
  }
  void repair_disk() override { store_->fail_recover(std::nullopt); }

 private:
  void reopen() {
    store_.reset();
    store_ = std::make_unique<MemoryStore>(disk_);
  }

  std::shared_ptr<MemoryDisk> disk_;
  std::unique_ptr<MemoryStore> store_;
};

const testing::StoreKind kMemory{"Memory", [] { return std::make_unique<MemoryBench>(); }};

}  // namespace

namespace testing {
INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, ::testing::Values(kMemory), store_kind_name);
INSTANTIATE_TEST_SUITE_P(Stores, StoreFaults, ::testing::Values(kMemory), store_kind_name);
}  // namespace testing

namespace {

class ManualMemoryStore : public ::testing::Test {
 protected:
  void put_near(JobId id) {
    auto batch = make_batch({put(make_record(id), Place::kNear, "x")});
    batch->seq = id;
    store_->commit(std::move(batch), [this](CommitSeq seq, Result<void> result) {
      (result ? durable_ : failed_).push_back(seq);
    });
  }
  std::vector<JobId> recovered_ids(MemoryStore& store) {
    testing::Recovered recovered;
    EXPECT_TRUE(store.recover(recovered));
    std::vector<JobId> ids;
    for (const StoredJob& job : recovered.jobs) ids.push_back(job.record.id);
    return ids;
  }

  using Seqs = std::vector<CommitSeq>;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(disk_, Completion::kManual);
  Seqs durable_;
  Seqs failed_;
};

TEST_F(ManualMemoryStore, ACommitIsDurableWhenToldAndNotBefore) {
  for (JobId id = 1; id <= 4; ++id) put_near(id);
  EXPECT_TRUE(durable_.empty());
  EXPECT_EQ(store_->pending_commits(), 4U);
  EXPECT_EQ(store_->complete_commits(3), 3U);
  EXPECT_EQ(durable_, Seqs{3}) << "one callback for the three";
  EXPECT_EQ(disk_->durable().jobs().size(), 3U);
  EXPECT_EQ(disk_->unsynced(), 1U);
  // The process ends: 4 is lost.
  store_.reset();
  MemoryStore next(disk_);
  EXPECT_EQ(recovered_ids(next), (std::vector<JobId>{1, 2, 3}));
  EXPECT_EQ(durable_, Seqs{3});
}

TEST_F(ManualMemoryStore, ACrashMayLeaveSomeOfWhatWasNotSynced) {
  for (JobId id = 1; id <= 4; ++id) put_near(id);
  disk_->set_survivors([](std::size_t unsynced) { return unsynced - 1; });
  store_.reset();
  MemoryStore next(disk_);
  EXPECT_EQ(recovered_ids(next), (std::vector<JobId>{1, 2, 3}));
}

TEST_F(ManualMemoryStore, AReadSeesTheUnsynced) {
  put_near(1);
  bool found = false;
  store_->fetch({{1, std::nullopt}},
                [&found](const std::vector<Result<std::optional<StoredJob>>>& jobs) {
                  found = jobs.at(0) && jobs[0]->has_value();
                });
  EXPECT_FALSE(found);
  EXPECT_EQ(store_->pending_reads(), 1U);
  EXPECT_TRUE(store_->complete_read());
  EXPECT_TRUE(found);
  EXPECT_TRUE(durable_.empty());
  EXPECT_FALSE(store_->complete_read());
}

TEST_F(ManualMemoryStore, TheNthCommitFailsAndThoseAfterItUntilRecover) {
  store_->fail_commit(2, {ErrorCode::kNoSpace, "full"});
  for (JobId id = 1; id <= 3; ++id) put_near(id);
  EXPECT_TRUE(store_->failed());
  store_->complete_all();
  EXPECT_EQ(durable_, Seqs{1});
  EXPECT_EQ(failed_, (Seqs{2, 3}));
  EXPECT_EQ(recovered_ids(*store_), std::vector<JobId>{1});
  EXPECT_FALSE(store_->failed());
  put_near(4);
  store_->complete_all();
  EXPECT_EQ(durable_, (Seqs{1, 4}));
}

TEST_F(ManualMemoryStore, AFailedCommitMayTurnOutToHaveSurvived) {
  store_->fail_commit(2, {ErrorCode::kIo, "broken"});
  for (JobId id = 1; id <= 3; ++id) put_near(id);
  store_->complete_all();
  disk_->set_survivors([](std::size_t unsynced) { return unsynced; });
  // 3 was submitted after the failure and never written.
  EXPECT_EQ(recovered_ids(*store_), (std::vector<JobId>{1, 2}));
}

TEST_F(ManualMemoryStore, AFailedSyncFailsAllThatWaitedForIt) {
  for (JobId id = 1; id <= 3; ++id) put_near(id);
  store_->complete_commits(1);
  store_->fail_sync({ErrorCode::kIo, "no"});
  store_->complete_commits(1);
  EXPECT_EQ(durable_, Seqs{1});
  EXPECT_EQ(failed_, (Seqs{2, 3}));
  EXPECT_EQ(recovered_ids(*store_), std::vector<JobId>{1});
}

TEST_F(ManualMemoryStore, RecoverAnswersWhatIsPendingFirst) {
  put_near(1);
  store_->fail_commit(1, {ErrorCode::kIo, "broken"});
  put_near(2);
  put_near(3);
  bool answered = false;
  store_->fetch({{1, std::nullopt}}, [&answered](const auto&) { answered = true; });
  recovered_ids(*store_);
  EXPECT_EQ(durable_, Seqs{1});
  EXPECT_EQ(failed_, (Seqs{2, 3}));
  EXPECT_TRUE(answered);
}

TEST_F(ManualMemoryStore, OneReadFailsWhenTold) {
  store_->fail_read(2, {ErrorCode::kIo, "unreadable"});
  std::vector<bool> answers;
  for (int i = 0; i < 3; ++i) {
    store_->fetch({{1, std::nullopt}},
                  [&answers](const std::vector<Result<std::optional<StoredJob>>>& jobs) {
                    answers.push_back(jobs.at(0).has_value());
                  });
  }
  store_->complete_all();
  EXPECT_EQ(answers, (std::vector<bool>{true, false, true}));
}

TEST(MemoryStateDeathTest, JudgesBatchesThatMakeNoSense) {
  const auto apply = [](std::vector<broker::Mutation> mutations) {
    MemoryState state;
    state.apply(*make_batch(
        {put(make_record(1), Place::kNear, "x"), put(make_record(2), Place::kFar, "y")}));
    state.apply(*make_batch(std::move(mutations)));
  };
  broker::JobRecord one = make_record(1);
  one.body_size = 1;
  broker::JobRecord two = make_record(2);
  two.body_size = 1;
  EXPECT_DEATH(apply({put(make_record(1), Place::kNear, "again")}), "stored already");
  EXPECT_DEATH(apply({update(two, Place::kNear)}), "which is far");
  EXPECT_DEATH(apply({update(one, Place::kSettled)}), "wrong place");
  EXPECT_DEATH(apply({update(make_record(9), Place::kNear)}), "not stored");
  EXPECT_DEATH(apply({settle(one, 0)}), "not far");
  EXPECT_DEATH(apply({settle(two, 1)}), "not due at 1");
  EXPECT_DEATH(apply({erase_near(2, false)}), "wrong place");
  EXPECT_DEATH(apply({erase_far(2, 5, 0)}), "not due at 0 in tube 5");
  EXPECT_DEATH(apply({update(one, Place::kNear), erase_near(1, false)}), "forgets its update");
  broker::JobRecord reserved = one;
  reserved.state = broker::JobState::kReserved;
  EXPECT_DEATH(apply({update(reserved, Place::kNear)}), "reserved");
}

}  // namespace
}  // namespace carillon::store
