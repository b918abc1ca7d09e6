// SPDX-License-Identifier: Apache-2.0
// What the RocksDB store makes of a folder after a kill, a power cut, an orderly stop, and while
// another process has it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;
using broker::CommitSeq;
using broker::JobId;
using broker::Place;
using testing::FaultFileSystem;
using testing::FaultyDatabase;
using testing::files_ending;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::read_file;
using testing::Recovered;
using testing::small_options;
using testing::StoreDriver;
using testing::TemporaryFolder;

Result<std::size_t> count_jobs(broker::Store& store) {
  Recovered recovered;
  if (Result<void> result = store.recover(recovered); !result) return result.error();
  return recovered.jobs.size();
}

// A folder that a death test's re-executed child finds again, by the environment.
class InheritedFolder {
 public:
  InheritedFolder() {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    if (const char* inherited = ::getenv(kVariable)) {
      path_ = inherited;
      return;
    }
    own_ = std::make_unique<TemporaryFolder>();
    path_ = own_->path();
    ::setenv(kVariable, path_.c_str(), 1);
  }
  ~InheritedFolder() {
    if (own_) ::unsetenv(kVariable);
  }
  [[nodiscard]] bool in_child() const noexcept { return !own_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  static constexpr const char* kVariable = "CARILLON_TEST_FOLDER";
  std::unique_ptr<TemporaryFolder> own_;
  std::string path_;
};

TEST(RocksFolder, IsOpenInOneProcessAtATime) {
  const InheritedFolder folder;
  const RocksOptions options = small_options(folder.path());
  const auto try_open = [&options] {
    const Result<std::unique_ptr<RocksDatabase>> second = RocksDatabase::open(options);
    if (second || second.error().code != ErrorCode::kUnavailable) _exit(1);
    ::fputs(second.error().message.c_str(), stderr);
    _exit(0);
  };
  Result<std::unique_ptr<RocksDatabase>> first = Error{ErrorCode::kNotFound, "in the child"};
  if (!folder.in_child()) {
    first = RocksDatabase::open(options);
    ASSERT_TRUE(first) << first.error().message;
  }
  EXPECT_EXIT(try_open(), ::testing::ExitedWithCode(0), "in use by another process");
  // In the same process, too.
  const Result<std::unique_ptr<RocksDatabase>> second = RocksDatabase::open(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  first->reset();
  EXPECT_TRUE(RocksDatabase::open(options));
}

// Commits without pause, notes in a file what has been acknowledged, and is killed by a signal in
// the midst of it.
[[noreturn]] void commit_until_killed(const std::string& folder) {
  RocksOptions options = small_options(folder);
  Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::open(options);
  if (!database) _exit(1);
  const std::unique_ptr<broker::Store> store = (*database)->open_partition(0);
  Recovered recovered;
  if (!store->recover(recovered)) _exit(1);
  const JobId first = recovered.jobs.empty() ? 1 : recovered.jobs.back().record.id + 1;
  const int note = ::open((folder + ".acknowledged").c_str(), O_CREAT | O_WRONLY | O_APPEND, 0644);
  for (CommitSeq seq = 1; seq <= 5'000; ++seq) {
    auto batch =
        make_batch({put(make_record(first + seq - 1), Place::kNear, std::string(500, 'x'))});
    batch->seq = seq;
    store->commit(std::move(batch), [note, first](CommitSeq up_to, Result<void> result) {
      if (!result) _exit(1);
      const JobId id = first + up_to - 1;
      if (::write(note, &id, sizeof id) != sizeof id) _exit(1);
      if (up_to > 700) ::kill(::getpid(), SIGKILL);
    });
  }
  for (;;) ::pause();
}

TEST(RocksFolder, HoldsEveryAcknowledgedJobAfterKillDashNine) {
  const InheritedFolder parent;
  const std::string folder = parent.path() + "/data";
  std::size_t had = 0;
  // Each round goes on in the folder that the last kill left.
  for (int round = 0; round < 3; ++round) {
    EXPECT_EXIT(commit_until_killed(folder), ::testing::KilledBySignal(SIGKILL), "");
    const std::string note = read_file(folder + ".acknowledged");
    ASSERT_GT(note.size(), 0U);
    JobId acknowledged = 0;
    std::memcpy(&acknowledged, note.data() + note.size() - sizeof acknowledged,
                sizeof acknowledged);
    Result<std::unique_ptr<RocksDatabase>> database = RocksDatabase::open(small_options(folder));
    ASSERT_TRUE(database) << database.error().message;
    const std::unique_ptr<broker::Store> store = (*database)->open_partition(0);
    Recovered recovered;
    ASSERT_TRUE(store->recover(recovered));
    ASSERT_GE(recovered.jobs.size(), acknowledged);
    EXPECT_GT(recovered.jobs.size(), had);
    had = recovered.jobs.size();
    for (std::size_t i = 0; i < recovered.jobs.size(); ++i) {
      ASSERT_EQ(recovered.jobs[i].record.id, i + 1) << "a gap";
    }
  }
}

// scenarios E18: a power cut in the middle of a write.
TEST(RocksPowerCut, ATornTailOfAnyLengthStartsAndHoldsEveryAcknowledgedJob) {
  for (std::size_t torn = 0; torn < 700; torn += torn < 20 ? 1 : 37) {
    SCOPED_TRACE("torn bytes " + std::to_string(torn));
    FaultyDatabase database;
    database.open();
    StoreDriver driver(database.store());
    Recovered recovered;
    ASSERT_TRUE(driver.recover(recovered));
    ASSERT_TRUE(driver.commit(make_batch({put(make_record(1), Place::kNear, "acknowledged")})));
    // The write goes through, its sync does not.
    database.disk().fail_change(2, FaultFileSystem::Fault::kIo, false);
    EXPECT_FALSE(
        driver.commit(make_batch({put(make_record(2), Place::kNear, std::string(400, 'x'))})));
    database.disk().heal();
    database.cut_power(torn);
    database.open();
    const Result<std::size_t> jobs = count_jobs(database.store());
    ASSERT_TRUE(jobs.has_value()) << jobs.error().message;
    EXPECT_EQ(*jobs, 1U);
    driver.use(database.store());
    ASSERT_TRUE(driver.commit(make_batch({put(make_record(3), Place::kNear, "goes on")})));
    database.cut_power();
    database.open();
    EXPECT_EQ(*count_jobs(database.store()), 2U);
  }
}

TEST(RocksPowerCut, AGapBetweenLogsEndsTheReplay) {
  std::promise<void> go_on;
  const std::shared_future<void> gone_on = go_on.get_future().share();
  std::string logged;
  FaultyDatabase database;
  database.options.small_mutations = 0;
  database.options.log = [&logged](LogLevel level, std::string_view message) {
    if (level == LogLevel::kWarning) logged.append(message);
  };
  database.open();
  StoreDriver driver(database.store());
  ASSERT_TRUE(driver.commit(make_batch({put(make_record(1), Place::kNear, "acknowledged")})));
  // No log is synced from here on, but more is written, over more than one of them.
  database.disk().on_sync(".log", [gone_on] {
    gone_on.wait();
    return false;
  });
  constexpr JobId kLast = 40;
  for (JobId id = 2; id <= kLast; ++id) {
    auto batch = make_batch({put(make_record(id), Place::kNear, std::string(16'000, 'x'))});
    batch->seq = driver.next_seq();
    database.store().commit(
        std::move(batch), [](CommitSeq, Result<void> result) { EXPECT_FALSE(result.has_value()); });
    // Once it can be read it is applied: each is a write of its own.
    ASSERT_TRUE(driver.fetch(id)->has_value());
  }
  database.disk().power_off();
  go_on.set_value();
  database.close();
  const std::vector<std::string> logs = files_ending(database.options.folder, ".log");
  ASSERT_GE(logs.size(), 2U);
  // The first loses what was not synced; the others happen to have reached the disk.
  const std::string whole = read_file(logs.front());
  database.disk().lose_unsynced(0, logs.front());
  ASSERT_NE(read_file(logs.front()), whole);
  ASSERT_NE(read_file(logs.back()).find(std::string(16'000, 'x')), std::string::npos);
  database.disk().on_sync("", nullptr);
  database.disk().power_on();
  database.open();
  Recovered recovered;
  ASSERT_TRUE(database.store().recover(recovered));
  ASSERT_EQ(recovered.jobs.size(), 1U);
  EXPECT_EQ(recovered.jobs[0].record.id, 1U);
  EXPECT_NE(logged.find("has a gap after write 1"), std::string::npos) << logged;
  driver.use(database.store());
  ASSERT_TRUE(driver.commit(make_batch({put(make_record(2), Place::kNear, "again")})));
  database.kill();
  database.open();
  EXPECT_EQ(*count_jobs(database.store()), 2U);
}

// scenarios E29: the disk is full, then the power fails.
TEST(RocksPowerCut, AFullDiskAndThenAPowerCutLoseNothing) {
  for (std::uint64_t nth = 1; nth <= 6; ++nth) {
    SCOPED_TRACE("full at change " + std::to_string(nth));
    FaultyDatabase database;
    database.open();
    StoreDriver driver(database.store());
    Recovered nothing;
    ASSERT_TRUE(driver.recover(nothing));
    std::set<JobId> acknowledged;
    std::set<JobId> submitted;
    database.disk().fail_change(nth, FaultFileSystem::Fault::kNoSpace, true);
    for (JobId id = 1; id <= 4; ++id) {
      submitted.insert(id);
      const Result<void> result =
          driver.commit(make_batch({put(make_record(id), Place::kNear, "x")}));
      if (result) {
        acknowledged.insert(id);
      } else if (!database.database().stats().failed) {
        ADD_FAILURE() << result.error().message;
      }
    }
    database.cut_power();
    // Still full: it says so, and may be tried again.
    const Result<void> full = database.try_open();
    if (!full) {
      EXPECT_EQ(full.error().code, ErrorCode::kNoSpace) << full.error().message;
    }
    database.cut_power();
    database.disk().heal();
    database.open();
    Recovered recovered;
    ASSERT_TRUE(database.store().recover(recovered));
    std::set<JobId> found;
    for (const broker::StoredJob& job : recovered.jobs) found.insert(job.record.id);
    EXPECT_TRUE(
        std::includes(found.begin(), found.end(), acknowledged.begin(), acknowledged.end()));
    EXPECT_TRUE(std::includes(submitted.begin(), submitted.end(), found.begin(), found.end()));
    driver.use(database.store());
    EXPECT_TRUE(driver.commit(make_batch({put(make_record(9), Place::kNear, "x")})));
  }
}

TEST(RocksFolder, AnOrderlyStopLeavesNothingToReplay) {
  FaultyDatabase database;
  database.open();
  StoreDriver driver(database.store());
  for (JobId id = 1; id <= 50; ++id) {
    ASSERT_TRUE(driver.commit(make_batch({put(make_record(id), Place::kNear, "x")})));
  }
  database.close();
  AcknowledgedMark mark;
  ASSERT_TRUE(mark.open(database.options.folder));
  EXPECT_EQ(mark.value()->group, 50U);
  for (const std::string& log : files_ending(database.options.folder, ".log")) {
    EXPECT_EQ(fs::file_size(log), 0U) << log;
  }
  database.open();
  EXPECT_EQ(*count_jobs(database.store()), 50U);
}

TEST(RocksFolder, ACreationThatFailsAnywhereCanBeRepeated) {
  bool passed = false;
  for (std::uint64_t nth = 1; !passed; ++nth) {
    SCOPED_TRACE("change " + std::to_string(nth));
    ASSERT_LT(nth, 500U);
    FaultyDatabase database;
    database.disk().fail_change(
        nth, nth % 2 == 0 ? FaultFileSystem::Fault::kIo : FaultFileSystem::Fault::kNoSpace, true);
    const Result<void> opened = database.try_open();
    passed = opened.has_value() && !database.disk().struck();
    if (nth % 3 == 0) {
      database.cut_power();
    } else {
      database.kill();
    }
    database.disk().heal();
    database.open();
    StoreDriver driver(database.store());
    ASSERT_TRUE(driver.commit(make_batch({put(make_record(1), Place::kNear, "x")})));
    EXPECT_EQ(*count_jobs(database.store()), 1U);
  }
}

}  // namespace
}  // namespace carillon::store
