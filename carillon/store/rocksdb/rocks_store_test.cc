// SPDX-License-Identifier: Apache-2.0
// The RocksDB store before the suites that judge every store, and its own contract: options, stats,
// several partitions, free space.
#include "carillon/store/rocksdb/rocks_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_conformance.h"

namespace carillon::store {
namespace {

using broker::CommitSeq;
using broker::JobId;
using broker::Place;
using testing::erase_near;
using testing::FaultyDatabase;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::Recovered;
using testing::small_options;
using testing::StoreDriver;
using testing::TemporaryFolder;

class RocksBench final : public testing::StoreBench {
 public:
  RocksBench() { database_.open(); }

  broker::Store& store() override { return database_.store(); }
  void restart() override {
    database_.close();
    database_.open();
  }
  void kill() override {
    database_.kill();
    database_.open();
  }
  void cut_power() override {
    database_.cut_power();
    database_.open();
  }
  void break_disk(ErrorCode code) override {
    database_.disk().fail_change(1,
                                 code == ErrorCode::kNoSpace
                                     ? testing::FaultFileSystem::Fault::kNoSpace
                                     : testing::FaultFileSystem::Fault::kIo,
                                 true);
  }
  void repair_disk() override { database_.disk().heal(); }

 private:
  FaultyDatabase database_;
};

const testing::StoreKind kRocks{"RocksDB", [] { return std::make_unique<RocksBench>(); }};

}  // namespace

namespace testing {
INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, ::testing::Values(kRocks), store_kind_name);
INSTANTIATE_TEST_SUITE_P(Stores, StoreFaults, ::testing::Values(kRocks), store_kind_name);
}  // namespace testing

namespace {

TEST(RocksDatabase, RefusesOptionsOutOfRangeAndNamesThem) {
  RocksOptions options;
  Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::open(options);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("folder"), std::string::npos);
  for (const std::uint32_t count : {0U, 1'025U}) {
    options.folder = "/nowhere";
    options.partition_count = count;
    opened = RocksDatabase::open(options);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(opened.error().message.find("partitions: "), std::string::npos);
  }
}

TEST(RocksDatabase, SaysWhyAFolderCannotBeCreated) {
  const Result<std::unique_ptr<RocksDatabase>> opened =
      RocksDatabase::open(small_options("/proc/carillon"));
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
  EXPECT_NE(opened.error().message.find("/proc/carillon"), std::string::npos)
      << opened.error().message;
}

TEST(RocksDatabase, PartitionsShareAFolderAndNothingElse) {
  const TemporaryFolder folder;
  RocksOptions options = small_options(folder.path());
  options.partition_count = 3;
  testing::RandomProgram programs[] = {testing::RandomProgram(1), testing::RandomProgram(2),
                                       testing::RandomProgram(3)};
  for (int round = 0; round < 3; ++round) {
    Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::open(options);
    ASSERT_TRUE(database) << database.error().message;
    std::vector<std::unique_ptr<broker::Store>> stores;
    std::vector<StoreDriver> drivers;
    for (std::uint32_t i = 0; i < 3; ++i) {
      stores.push_back((*database)->open_partition(i));
      drivers.emplace_back(*stores.back());
      testing::expect_holds(drivers[i], programs[i].state(), "opened");
    }
    for (int step = 0; step < 40; ++step) {
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(drivers[i].commit(programs[i].next_batch()));
      }
    }
    for (std::size_t i = 0; i < 3; ++i) {
      testing::expect_holds(drivers[i], programs[i].state(), "partition " + std::to_string(i));
    }
  }
}

TEST(RocksDatabase, OnePartitionFailsAndRecoversWithoutFailingAnIdleOne) {
  FaultyDatabase database;
  database.options.partition_count = 2;
  database.open();
  const std::unique_ptr<broker::Store> other = database.database().open_partition(1);
  StoreDriver failing(database.store());
  StoreDriver idle(*other);
  ASSERT_TRUE(idle.commit(make_batch({put(make_record(1), Place::kNear, "idle")})));
  ASSERT_TRUE(failing.commit(make_batch({put(make_record(2), Place::kNear, "failing")})));
  database.disk().fail_change(1, testing::FaultFileSystem::Fault::kIo, true);
  EXPECT_FALSE(failing.commit(make_batch({put(make_record(4), Place::kNear, "x")})));
  database.disk().heal();
  EXPECT_TRUE(database.database().stats().failed);
  Recovered recovered;
  ASSERT_TRUE(failing.recover(recovered));
  EXPECT_FALSE(database.database().stats().failed);
  EXPECT_EQ(database.database().stats().reopenings, 1U);
  // It had nothing in flight: it goes on as if nothing had happened.
  EXPECT_TRUE(idle.commit(make_batch({put(make_record(3), Place::kNear, "idle")})));
  Recovered idle_state;
  ASSERT_TRUE(idle.recover(idle_state));
  EXPECT_EQ(idle_state.jobs.size(), 2U);
}

TEST(RocksDatabase, APartitionThatCommitsWhileTheFolderHasFailedMustRecoverToo) {
  FaultyDatabase database;
  database.options.partition_count = 2;
  database.open();
  const std::unique_ptr<broker::Store> other = database.database().open_partition(1);
  StoreDriver first(database.store());
  StoreDriver second(*other);
  ASSERT_TRUE(second.commit(make_batch({put(make_record(1), Place::kNear, "kept")})));
  database.disk().fail_change(1, testing::FaultFileSystem::Fault::kIo, true);
  EXPECT_FALSE(first.commit(make_batch({put(make_record(2), Place::kNear, "x")})));
  EXPECT_FALSE(second.commit(make_batch({put(make_record(3), Place::kNear, "x")})));
  database.disk().heal();
  Recovered recovered;
  ASSERT_TRUE(first.recover(recovered));
  EXPECT_TRUE(first.commit(make_batch({put(make_record(4), Place::kNear, "x")})));
  EXPECT_FALSE(second.commit(make_batch({put(make_record(5), Place::kNear, "x")})));
  Recovered second_state;
  ASSERT_TRUE(second.recover(second_state));
  ASSERT_EQ(second_state.jobs.size(), 1U);
  EXPECT_EQ(second_state.jobs[0].record.id, 1U);
  EXPECT_TRUE(second.commit(make_batch({put(make_record(6), Place::kNear, "x")})));
  EXPECT_EQ(database.database().stats().reopenings, 1U);
}

TEST(RocksDatabase, CountsWhatItDoes) {
  FaultyDatabase database;
  database.open();
  StoreDriver driver(database.store());
  ASSERT_TRUE(driver.commit(make_batch(
      {put(make_record(1), Place::kNear, "x"), put(make_record(2), Place::kNear, "y")})));
  ASSERT_TRUE(driver.commit(make_batch({erase_near(1, false)})));
  (void)driver.fetch(2);
  // A callback comes before its commit is counted; recover waits for it.
  Recovered recovered;
  ASSERT_TRUE(driver.recover(recovered));
  const RocksStats stats = database.database().stats();
  EXPECT_EQ(stats.commits, 2U);
  EXPECT_EQ(stats.mutations, 3U);
  EXPECT_EQ(stats.groups, 2U);
  EXPECT_EQ(stats.syncs, 2U);
  EXPECT_EQ(stats.reads, 1U);
  EXPECT_EQ(stats.commit_us.count, 2U);
  EXPECT_EQ(stats.sync_us.count, 2U);
  EXPECT_GT(stats.bytes_written, 0U);
  EXPECT_EQ(stats.failed_commits, 0U);
  EXPECT_TRUE(stats.last_error.empty());
  EXPECT_FALSE(stats.failed);
}

TEST(RocksDatabase, AcknowledgesWhatWasAppliedBeforeTheSyncBeganAndNoMore) {
  std::promise<void> in_sync;
  std::promise<void> go_on;
  std::atomic<int> syncs{0};
  FaultyDatabase database;
  database.options.small_mutations = 0;
  database.open();
  // The first sync is held up; meanwhile more is committed, and read.
  database.disk().on_sync(".log", [&] {
    if (syncs.fetch_add(1) > 0) return true;
    in_sync.set_value();
    go_on.get_future().wait();
    return true;
  });
  std::promise<void> first;
  std::promise<void> second;
  auto batch = make_batch({put(make_record(1), Place::kNear, "x")});
  batch->seq = 1;
  database.store().commit(std::move(batch), [&first](CommitSeq seq, Result<void> result) {
    EXPECT_TRUE(result.has_value());
    EXPECT_EQ(seq, 1U) << "the second was not applied yet when its sync began";
    first.set_value();
  });
  in_sync.get_future().wait();
  batch = make_batch({put(make_record(2), Place::kNear, "y")});
  batch->seq = 2;
  std::atomic<bool> second_durable{false};
  database.store().commit(std::move(batch), [&](CommitSeq seq, Result<void> result) {
    EXPECT_TRUE(result.has_value());
    EXPECT_EQ(seq, 2U);
    second_durable = true;
    second.set_value();
  });
  // A read is answered though the sync hangs, and sees the second.
  StoreDriver driver(database.store());
  EXPECT_TRUE(driver.fetch(2)->has_value());
  EXPECT_FALSE(second_durable);
  go_on.set_value();
  first.get_future().wait();
  second.get_future().wait();
  EXPECT_EQ(syncs, 2);
}

TEST(RocksDatabase, PutsAreRefusedWhileSpaceIsLowAndErasesPass) {
  FaultyDatabase database;
  std::atomic<std::uint64_t> free_bytes{10'000};
  database.options.min_free_bytes = 10'000;
  database.options.free_space_interval = Span(0);
  database.options.free_bytes = [&free_bytes] { return free_bytes.load(); };
  database.open();
  StoreDriver driver(database.store());
  EXPECT_TRUE(database.store().accepts_puts());
  ASSERT_TRUE(driver.commit(make_batch(
      {put(make_record(1), Place::kNear, "x"), put(make_record(2), Place::kNear, "y")})));
  free_bytes = 9'999;
  EXPECT_FALSE(database.store().accepts_puts());
  ASSERT_TRUE(driver.commit(make_batch({erase_near(1, false)})));
  const Result<void> refused =
      driver.commit(make_batch({put(make_record(3), Place::kNear, "z"), erase_near(2, false)}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kNoSpace);
  EXPECT_NE(refused.error().message.find("min-free-space is 10000"), std::string::npos)
      << refused.error().message;
  EXPECT_FALSE(driver.commit(make_batch({erase_near(2, false)}))) << "until recovered";
  // Nothing of the refused batch took place, and the folder itself has not failed.
  Recovered recovered;
  ASSERT_TRUE(driver.recover(recovered));
  ASSERT_EQ(recovered.jobs.size(), 1U);
  EXPECT_EQ(recovered.jobs[0].record.id, 2U);
  const RocksStats stats = database.database().stats();
  EXPECT_EQ(stats.reopenings, 0U);
  EXPECT_EQ(stats.refused_commits, 1U);
  EXPECT_FALSE(stats.accepts_puts);
  ASSERT_TRUE(driver.commit(make_batch({erase_near(2, false)})));
  free_bytes = 20'000;
  EXPECT_TRUE(database.store().accepts_puts());
  EXPECT_TRUE(driver.commit(make_batch({put(make_record(4), Place::kNear, "room again")})));
}

TEST(RocksDatabase, RefusedPutsAreLoggedOnceWithTheFiguresAndSoIsTheirEnd) {
  FaultyDatabase database;
  std::atomic<std::uint64_t> free_bytes{300 << 20};
  database.options.min_free_bytes = 128 << 20;
  database.options.free_space_interval = Span(0);
  database.options.free_bytes = [&free_bytes] { return free_bytes.load(); };
  std::vector<std::string> logged;
  database.options.log = [&logged](LogLevel, std::string_view message) {
    if (message.find("puts are") != std::string_view::npos) logged.emplace_back(message);
  };
  database.open();
  EXPECT_TRUE(database.store().accepts_puts());
  EXPECT_THAT(logged, ::testing::IsEmpty());
  free_bytes = (100 << 20) + 52'429;
  for (int i = 0; i < 1'000; ++i) EXPECT_FALSE(database.store().accepts_puts());
  ASSERT_THAT(logged, ::testing::SizeIs(1));
  EXPECT_THAT(logged[0], ::testing::HasSubstr("100.0 MiB are free"));
  EXPECT_THAT(logged[0], ::testing::HasSubstr("min-free-space (128.0 MiB)"));
  free_bytes = 200 << 20;
  for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(database.store().accepts_puts());
  ASSERT_THAT(logged, ::testing::SizeIs(2));
  EXPECT_THAT(logged[1], ::testing::HasSubstr("200.0 MiB are free"));
  EXPECT_THAT(logged[1], ::testing::HasSubstr("1000 were refused"));
}

TEST(RocksDatabase, WhatIsErasedWhileSpaceIsLowIsGivenBackWithoutAnotherCommit) {
  FaultyDatabase database;
  std::atomic<bool> low{false};
  database.options.memtable_bytes = 12 << 20;  // The erases alone would never fill it.
  database.options.min_free_bytes = 1'000;
  database.options.free_space_interval = Span(0);
  database.options.free_bytes = [&low] { return low ? std::uint64_t{0} : std::uint64_t{1'000}; };
  database.open();
  StoreDriver driver(database.store());
  constexpr JobId kJobs = 30'000;
  auto puts = make_batch();
  auto erases = make_batch();
  for (JobId id = 1; id <= kJobs; ++id) {
    puts->mutations.push_back(put(make_record(id), Place::kNear, std::string(500, 'x')));
    erases->mutations.push_back(erase_near(id, false));
  }
  ASSERT_TRUE(driver.commit(std::move(puts)));
  ASSERT_TRUE(database.database().compact());
  const std::uint64_t full = database.database().stats().stored_bytes;
  ASSERT_GT(full, kJobs * 300);
  low = true;
  ASSERT_TRUE(driver.commit(std::move(erases)));
  EXPECT_FALSE(database.store().accepts_puts());
  // Compaction takes its time, of which nothing is known here; that it ends is the test.
  while (database.database().stats().stored_bytes > full / 10) std::this_thread::yield();
  EXPECT_FALSE(driver.fetch(1)->has_value());
}

TEST(RocksDatabase, ManyThreadsOfPartitionsAtOnce) {
  const TemporaryFolder folder;
  RocksOptions options = small_options(folder.path());
  options.partition_count = 4;
  Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::open(options);
  ASSERT_TRUE(database) << database.error().message;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < options.partition_count; ++i) {
    threads.emplace_back([&database, i] {
      const std::unique_ptr<broker::Store> store = (*database)->open_partition(i);
      StoreDriver driver(*store);
      testing::RandomProgram program(i);
      for (int step = 0; step < 60; ++step) {
        EXPECT_TRUE(driver.commit(program.next_batch()));
        EXPECT_TRUE(driver.fetch(program.any_id()));
      }
      testing::expect_holds(driver, program.state(), "partition " + std::to_string(i));
    });
  }
  for (int i = 0; i < 50; ++i) (void)(*database)->stats();
  for (std::thread& thread : threads) thread.join();
}

TEST(RocksDatabaseDeathTest, APartitionIsOpenedOnceAtATime) {
  const TemporaryFolder folder;
  Result<std::unique_ptr<RocksDatabase>> database =
      RocksDatabase::open(small_options(folder.path()));
  ASSERT_TRUE(database);
  std::unique_ptr<broker::Store> store = (*database)->open_partition(0);
  EXPECT_DEATH((void)(*database)->open_partition(0), "open already");
  EXPECT_DEATH((void)(*database)->open_partition(1), "partition 1 of 1");
  store.reset();
  store = (*database)->open_partition(0);
}

TEST(LatencyCounts, QuantilesAreUpperBoundsOfTheirBucket) {
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile_us(0.5), 0U);
  for (std::uint64_t us = 0; us < 100; ++us) counts.add(us);
  EXPECT_EQ(counts.count, 100U);
  EXPECT_EQ(counts.max_us, 99U);
  EXPECT_EQ(counts.quantile_us(0.5), 64U);
  EXPECT_EQ(counts.quantile_us(1.0), 128U);
  counts.add(std::uint64_t{1} << 40);
  EXPECT_EQ(counts.quantile_us(1.0), std::uint64_t{1} << 40);
}

}  // namespace
}  // namespace carillon::store
