// SPDX-License-Identifier: Apache-2.0
// Backups of folders that are open and that are not, and folders made of them.
#include "carillon/store/rocksdb/backup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "carillon/store/rocksdb/folder_check.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;
using broker::JobId;
using broker::Place;
using testing::contents;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::Recovered;
using testing::small_options;
using testing::StoreDriver;
using testing::TemporaryFolder;
using testing::write_file;

class Backup : public ::testing::Test {
 protected:
  void open(const std::string& folder, decltype(RocksOptions::log) log = {}) {
    store_.reset();
    database_.reset();
    RocksOptions options = small_options(folder);
    options.log = std::move(log);
    Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::open(std::move(options));
    ASSERT_TRUE(opened) << opened.error().message;
    database_ = std::move(*opened);
    store_ = database_->open_partition(0);
    driver_.use(*store_);
    recovered_ = {};
    ASSERT_TRUE(driver_.recover(recovered_));
  }
  void close() {
    store_.reset();
    database_.reset();
  }
  /// Each in a commit of its own, with the records that a broker would write.
  void put_jobs(JobId first, JobId last, std::size_t body = 200) {
    for (JobId id = first; id <= last; ++id) {
      auto batch = make_batch({put(make_record(id), Place::kNear, std::string(body, 'x'))});
      if (id == 1) testing::add_tube(*batch, {1, "mail", 0, 0, 0, 0});
      broker::PartitionRecord own;
      own.next_id = id + 1;
      own.next_tube = 2;
      testing::add_partition(*batch, own);
      ASSERT_TRUE(driver_.commit(std::move(batch)));
    }
  }
  static void expect_sound(const std::string& folder, std::uint64_t jobs) {
    const Result<FolderReport> report = check_folder({folder, 10, {}, {}});
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_TRUE(report->sound()) << report->faults.at(0).place << ": " << report->faults.at(0).what;
    ASSERT_EQ(report->tubes.size(), 1U);
    EXPECT_EQ(report->tubes[0].ready, jobs);
  }

  const TemporaryFolder folder_;
  const std::string data_ = folder_.path() + "/data";
  const std::string backup_ = folder_.path() + "/backup";
  const std::string restored_ = folder_.path() + "/restored";
  std::unique_ptr<RocksDatabase> database_;
  std::unique_ptr<broker::Store> store_;
  StoreDriver driver_;
  Recovered recovered_;
};

TEST_F(Backup, OfAnOpenFolderHasWhatWasAcknowledgedAndNothingLater) {
  open(data_);
  put_jobs(1, 30);
  const Result<BackupList> made = database_->back_up(backup_);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->group, 30U);
  put_jobs(31, 40);
  expect_sound(backup_, 30);
  close();

  const auto before = contents(backup_);
  ASSERT_TRUE(restore_backup(backup_, restored_));
  EXPECT_EQ(contents(backup_), before);
  expect_sound(restored_, 30);
  open(restored_);
  EXPECT_EQ(recovered_.jobs.size(), 30U);
  EXPECT_EQ(recovered_.jobs.back().body.view(), std::string(200, 'x'));
  // The ids of 31 to 40 are not given out again.
  EXPECT_EQ(recovered_.partition->next_id, 31 + kRestoreIdGap);
}

TEST_F(Backup, OfAnOpenFolderIsNothingToWarnOf) {
  std::vector<std::string> logged;
  open(data_, [&logged](LogLevel, std::string_view message) { logged.emplace_back(message); });
  put_jobs(1, 10);
  for (const char* name : {"1", "2", "3"}) ASSERT_TRUE(database_->back_up(backup_ + name));
  close();
  EXPECT_EQ(logged, std::vector<std::string>());
}

TEST_F(Backup, UnderLoadAndFlushesIsSoundEveryTime) {
  open(data_);
  std::atomic<bool> stop{false};
  std::atomic<JobId> acknowledged{0};
  std::thread load([&] {
    for (JobId id = 1; !stop.load(); ++id) {
      put_jobs(id, id, 20'000);
      acknowledged.store(id);
    }
  });
  for (int i = 0; i < 5; ++i) {
    while (acknowledged.load() < static_cast<JobId>(i + 1) * 40) std::this_thread::yield();
    const std::string to = backup_ + std::to_string(i);
    const JobId before = acknowledged.load();
    const Result<BackupList> made = database_->back_up(to);
    const JobId after = acknowledged.load() + 1;
    ASSERT_TRUE(made) << made.error().message;
    const Result<FolderReport> report = check_folder({to, 10, {}, {}});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->sound()) << report->faults.at(0).place << ": " << report->faults.at(0).what;
    EXPECT_GE(report->tubes.at(0).ready, before);
    EXPECT_LE(report->tubes.at(0).ready, after);
    ASSERT_TRUE(restore_backup(to, restored_ + std::to_string(i)));
    expect_sound(restored_ + std::to_string(i), report->tubes.at(0).ready);
    fs::remove_all(to);
    fs::remove_all(restored_ + std::to_string(i));
  }
  stop = true;
  load.join();
}

TEST_F(Backup, OfAClosedFolderIsTheFolderAndLeavesItAlone) {
  open(data_);
  put_jobs(1, 20);
  close();
  const auto before = contents(data_);
  const Result<BackupList> made = back_up_folder(data_, backup_);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(contents(data_), before);
  expect_sound(backup_, 20);
  ASSERT_TRUE(restore_backup(backup_, restored_));
  expect_sound(restored_, 20);
}

TEST_F(Backup, IsNotMadeInsideOfWhatItIsOf) {
  open(data_);
  put_jobs(1, 3);
  std::filesystem::create_directory_symlink(data_, folder_.path() + "/link");
  const std::string inside[] = {data_ + "/backup", data_ + "/../data/backup",
                                folder_.path() + "/link/backup"};
  for (const std::string& folder : inside) {
    EXPECT_EQ(database_->back_up(folder).error().code, ErrorCode::kInvalidArgument) << folder;
  }
  close();
  for (const std::string& folder : inside) {
    EXPECT_EQ(back_up_folder(data_, folder).error().code, ErrorCode::kInvalidArgument) << folder;
  }
  EXPECT_TRUE(back_up_folder(data_, data_ + "-backup")) << "a name that only begins so is another";
  expect_sound(data_, 3);
}

TEST_F(Backup, OverwritesNothing) {
  open(data_);
  put_jobs(1, 3);
  ASSERT_TRUE(database_->back_up(backup_));
  const auto before = contents(backup_);
  EXPECT_EQ(database_->back_up(backup_).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(database_->back_up(data_).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(database_->back_up(folder_.path() + "/no/such/folder").error().code,
            ErrorCode::kNotFound);
  EXPECT_EQ(contents(backup_), before);
  close();
  EXPECT_EQ(back_up_folder(data_, backup_).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(restore_backup(backup_, data_).error().code, ErrorCode::kAlreadyExists);
  EXPECT_EQ(restore_backup(backup_, backup_).error().code, ErrorCode::kAlreadyExists);
  expect_sound(data_, 3);
}

TEST_F(Backup, AHalfOneIsNoBackupAndIsReplacedByTheNext) {
  open(data_);
  put_jobs(1, 3);
  fs::create_directory(backup_ + ".incomplete");
  write_file(backup_ + ".incomplete/000001.sst", "half");
  EXPECT_EQ(restore_backup(backup_ + ".incomplete", restored_).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(restored_));
  ASSERT_TRUE(database_->back_up(backup_));
  EXPECT_FALSE(fs::exists(backup_ + ".incomplete"));
  expect_sound(backup_, 3);
}

TEST_F(Backup, OneThatIsGivenUpLeavesNothing) {
  open(data_);
  put_jobs(1, 3);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(database_->back_up(backup_, stop.get_token()).error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(fs::exists(backup_));
  EXPECT_FALSE(fs::exists(backup_ + ".incomplete"));
}

TEST_F(Backup, WithAFileMissingOrOfAnotherSizeIsRefused) {
  open(data_);
  put_jobs(1, 3);
  ASSERT_TRUE(database_->back_up(backup_));
  close();
  const auto whole = contents(backup_);
  for (const auto& [name, bytes] : whole) {
    if (name == kBackupFile) continue;
    write_file(backup_ + "/" + name, bytes + "x");
    EXPECT_EQ(restore_backup(backup_, restored_).error().code, ErrorCode::kCorrupt) << name;
    fs::remove(backup_ + "/" + name);
    EXPECT_EQ(restore_backup(backup_, restored_).error().code, ErrorCode::kCorrupt) << name;
    const Result<FolderReport> report = check_folder({backup_, 10, {}, {}});
    ASSERT_TRUE(report);
    EXPECT_EQ(report->faults.at(0).place, kBackupFile);
    write_file(backup_ + "/" + name, bytes);
  }
  const std::string list = whole.at(kBackupFile);
  for (const std::string& damaged :
       {std::string(), list.substr(0, list.size() - 4), list.substr(0, 20), list + "more\n",
        "carillon backup 2\n" + list.substr(list.find('\n') + 1),
        list.substr(0, list.size() - 4) + "file 1 ../escape\nend\n"}) {
    write_file(backup_ + "/" + kBackupFile, damaged);
    EXPECT_EQ(restore_backup(backup_, restored_).error().code, ErrorCode::kCorrupt) << damaged;
  }
  EXPECT_FALSE(fs::exists(restored_));
  write_file(backup_ + "/" + kBackupFile, list);
  expect_sound(backup_, 3);
}

TEST_F(Backup, IsNotServedAndNeitherIsAHalfRestoredFolder) {
  open(data_);
  put_jobs(1, 3);
  ASSERT_TRUE(database_->back_up(backup_));
  close();
  const auto before = contents(backup_);
  Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::open(small_options(backup_));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("is a backup"), std::string::npos);
  EXPECT_EQ(contents(backup_), before);

  ASSERT_TRUE(restore_backup(backup_, restored_));
  write_file(restored_ + "/" + kRestoringFile, "");
  opened = RocksDatabase::open(small_options(restored_));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("was interrupted"), std::string::npos);
  EXPECT_FALSE(check_folder({restored_, 10, {}, {}})->sound());
  EXPECT_NE(restore_backup(backup_, restored_).error().message.find("interrupted restore"),
            std::string::npos);
  EXPECT_EQ(back_up_folder(restored_, backup_ + "2").error().code, ErrorCode::kInvalidArgument);
}

TEST_F(Backup, OfAStoreThatHasNothingIsOneToo) {
  open(data_);
  ASSERT_TRUE(database_->back_up(backup_));
  close();
  ASSERT_TRUE(restore_backup(backup_, restored_));
  open(restored_);
  EXPECT_TRUE(recovered_.jobs.empty());
}

}  // namespace
}  // namespace carillon::store
