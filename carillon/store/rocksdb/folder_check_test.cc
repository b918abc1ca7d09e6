// SPDX-License-Identifier: Apache-2.0
// Folders that are sound and are called so; and each kind of fault, made by hand, found by name.
#include "carillon/store/rocksdb/folder_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/backup.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/rocks_settings.h"
#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;
using broker::JobRecord;
using broker::JobState;
using broker::Place;
using testing::contents;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::small_options;
using testing::StoreDriver;
using testing::TemporaryFolder;
using testing::write_file;

constexpr std::int64_t kDue = 2'000'000'000'000;

/// Jobs 1 ready, 2 delayed, 3 buried, 4 far, 5 settled, of a tube each way the store has.
class CheckedFolder : public ::testing::Test {
 protected:
  CheckedFolder() : path_(folder_.path() + "/data") {
    std::unique_ptr<RocksDatabase> database = *RocksDatabase::open(small_options(path_));
    const std::unique_ptr<broker::Store> store = database->open_partition(0);
    StoreDriver driver(*store);
    testing::Recovered nothing;
    EXPECT_TRUE(driver.recover(nothing));
    JobRecord delayed = make_record(2);
    delayed.state = JobState::kDelayed;
    delayed.due_ms = kDue;
    JobRecord buried = make_record(3);
    JobRecord far = make_record(4);
    far.state = JobState::kDelayed;
    far.due_ms = kDue + 1'000;
    far.extras = testing::with_key("order-17");
    JobRecord settled = make_record(5);
    settled.state = JobState::kDelayed;
    settled.due_ms = kDue + 2'000;
    auto batch = make_batch({put(make_record(1), Place::kNear, "one"),
                             put(delayed, Place::kNear, "two"), put(buried, Place::kNear, "three"),
                             put(far, Place::kFar, "four"), put(settled, Place::kFar, "five")});
    broker::TubeRecord tube;
    tube.number = 1;
    tube.name = "mail";
    tube.far_count = 2;
    tube.far_from_ms = kDue;
    testing::add_tube(*batch, tube);
    broker::PartitionRecord own;
    own.next_id = 6;
    own.next_tube = 2;
    testing::add_partition(*batch, own);
    EXPECT_TRUE(driver.commit(std::move(batch)));
    buried.state = JobState::kBuried;
    buried.bury_order = 1;
    buried.body_size = 5;
    settled.body_size = 4;
    batch =
        make_batch({testing::update(buried, Place::kNear), testing::settle(settled, kDue + 2'000)});
    tube.far_count = 1;
    testing::add_tube(*batch, tube);
    EXPECT_TRUE(driver.commit(std::move(batch)));
  }

  [[nodiscard]] FolderReport check(std::size_t max_faults = 50) const {
    FolderCheckOptions options;
    options.folder = path_;
    options.max_faults = max_faults;
    options.partition_of_tube = [](std::string_view, std::size_t) { return 0; };
    options.partition_of_job = [](std::uint64_t, std::size_t) { return 0; };
    Result<FolderReport> report = check_folder(options);
    EXPECT_TRUE(report) << report.error().message;
    return std::move(*report);
  }

  /// Changes the database behind the store's back.
  void change(
      const std::function<void(rocksdb::WriteBatch&,
                               const std::vector<rocksdb::ColumnFamilyHandle*>&)>& by) const {
    const RocksOptions rocks = small_options(path_);
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(make_db_options(rocks), path_,
                                  make_families(rocks, rocksdb::NewLRUCache(1 << 20)), &families,
                                  &opened)
                    .ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    rocksdb::WriteBatch batch;
    by(batch, families);
    rocksdb::WriteOptions durable;
    durable.sync = true;
    EXPECT_TRUE(db->Write(durable, &batch).ok());
    for (rocksdb::ColumnFamilyHandle* family : families) {
      (void)db->DestroyColumnFamilyHandle(family);
    }
  }
  void drop_keys() const {
    const RocksOptions rocks = small_options(path_);
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(make_db_options(rocks), path_,
                                  make_families(rocks, rocksdb::NewLRUCache(1 << 20)), &families,
                                  &opened)
                    .ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    EXPECT_TRUE(db->DropColumnFamily(families[kKeys]).ok());
    for (rocksdb::ColumnFamilyHandle* family : families) {
      (void)db->DestroyColumnFamilyHandle(family);
    }
  }
  void put_bytes(Family family, std::string_view key, std::string_view value) const {
    change([&](rocksdb::WriteBatch& batch, const auto& families) {
      (void)batch.Put(families[family], key, value);
    });
  }
  void erase(Family family, std::string_view key) const {
    change([&](rocksdb::WriteBatch& batch, const auto& families) {
      (void)batch.Delete(families[family], key);
    });
  }

  /// There is exactly this fault.
  void expect_fault(const std::string& place, std::string_view key, const std::string& what) const {
    const FolderReport report = check();
    ASSERT_EQ(report.faults.size(), 1U) << (report.faults.empty() ? "" : report.faults[1].what);
    EXPECT_EQ(report.faults[0].place, place);
    EXPECT_EQ(report.faults[0].key, to_hex(key));
    EXPECT_NE(report.faults[0].what.find(what), std::string::npos) << report.faults[0].what;
    EXPECT_FALSE(report.sound());
  }

  const TemporaryFolder folder_;
  const std::string path_;
};

TEST_F(CheckedFolder, ASoundOneIsCountedAndLeftAsItIs) {
  const auto before = contents(path_);
  const FolderReport report = check();
  EXPECT_TRUE(report.sound()) << report.faults.at(0).what;
  EXPECT_EQ(contents(path_), before);
  EXPECT_EQ(report.format, kFormatVersion);
  EXPECT_EQ(report.partitions, 1U);
  EXPECT_EQ(report.writes, 2U);
  EXPECT_EQ(report.acknowledged, 2U);
  ASSERT_EQ(report.tubes.size(), 1U);
  const CheckedTube& tube = report.tubes[0];
  EXPECT_EQ(tube.name, "mail");
  EXPECT_EQ(tube.ready, 1U);
  EXPECT_EQ(tube.delayed, 2U);
  EXPECT_EQ(tube.buried, 1U);
  EXPECT_EQ(tube.far, 1U);
  EXPECT_EQ(tube.body_bytes, 19U);
  EXPECT_EQ(tube.next_due_ms, kDue);
}

TEST_F(CheckedFolder, IsNotReadWhileItIsInUseAndNotOpenedWhileItIsRead) {
  const std::unique_ptr<RocksDatabase> database = *RocksDatabase::open(small_options(path_));
  FolderCheckOptions options;
  options.folder = path_;
  // The lock is the process's, so that only another one would be refused here: cli_test.py.
  EXPECT_EQ(check_folder({folder_.path() + "/none", 1, {}, {}}).error().code, ErrorCode::kNotFound);
  fs::create_directory(folder_.path() + "/empty");
  EXPECT_EQ(check_folder({folder_.path() + "/empty", 1, {}, {}}).error().code,
            ErrorCode::kNotFound);
}

TEST_F(CheckedFolder, ARecordThatCannotBeReadIsNamed) {
  put_bytes(kState, job_key(0, 3).view(), "garbage");
  // The job is then what its put said.
  expect_fault("state", job_key(0, 3).view(), "job 3");
}

TEST_F(CheckedFolder, ABodyOfAnotherSizeIsNamed) {
  JobRecord job = make_record(1);
  job.body_size = 4;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kNear, job_key(0, 1).view(), value + "one");
  expect_fault("near", job_key(0, 1).view(), "job 1: job announces a body of 4 bytes, has 3");
}

TEST_F(CheckedFolder, AnUpdateOfAnotherBodySizeIsNamed) {
  JobRecord job = make_record(1);
  job.body_size = 9;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kState, job_key(0, 1).view(), value);
  expect_fault("state", job_key(0, 1).view(), "job 1 announces a body of another size");
}

TEST_F(CheckedFolder, AnUpdateWithoutItsPutIsNamed) {
  erase(kNear, job_key(0, 3).view());
  expect_fault("state", job_key(0, 3).view(), "job 3 has no body");
}

// Of each schedule there are two records.
TEST_F(CheckedFolder, SchedulesAreSoundIfBothTheirRecordsAre) {
  broker::ScheduleSettings settings;
  settings.tube = "mail";
  settings.spec = "every 1m";
  const std::string schedule = schedule_key(0, "nightly");
  const std::string progress = progress_key(0, "nightly");
  put_bytes(kMeta, schedule, encode_schedule(settings));
  expect_fault("default", schedule, "the schedule has no progress");
  put_bytes(kMeta, progress, encode_progress({}));
  EXPECT_TRUE(check().sound()) << check().faults.at(0).what;
  put_bytes(kMeta, progress, "\x02\x08 no such field");
  expect_fault("default", progress, "progress");
  put_bytes(kMeta, progress, encode_progress({}));
  put_bytes(kMeta, schedule, "\x02\x09");
  expect_fault("default", schedule, "schedule");
  erase(kMeta, schedule);
  expect_fault("default", progress, "the progress of a schedule that is not there");
}

TEST_F(CheckedFolder, AnOrphanedBodyIsNamed) {
  erase(kState, job_key(0, 5).view());
  expect_fault("cold", job_key(0, 5).view(), "job 5 is an orphan");
}

TEST_F(CheckedFolder, AFarJobWithoutItsBodyIsNamed) {
  erase(kCold, job_key(0, 4).view());
  expect_fault("far", job_key(0, 4).view(), "job 4 has no body");
}

TEST_F(CheckedFolder, AFarJobThatIsMissingShowsInTheCount) {
  erase(kFar, far_key(0, 1, kDue + 1'000, 4).view());
  const FolderReport report = check();
  ASSERT_EQ(report.faults_found, 3U);
  EXPECT_NE(report.faults[0].what.find("job 4 is an orphan"), std::string::npos);
  EXPECT_EQ(report.faults[1].what, "tube mail announces 1 far jobs and has 0");
  EXPECT_EQ(report.faults[2].what, "job 4 has this key and is not far");
}

TEST_F(CheckedFolder, AJobInTwoPlacesIsNamed) {
  JobRecord job = make_record(1);
  job.body_size = 3;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kCold, job_key(0, 1).view(), value + "one");
  expect_fault("cold", job_key(0, 1).view(), "job 1 is in near as well");
}

TEST_F(CheckedFolder, AFarKeyThatDisagreesWithItsRecordIsNamed) {
  JobRecord job = make_record(4);
  job.state = JobState::kDelayed;
  job.due_ms = kDue + 1'001;
  job.body_size = 4;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kFar, far_key(0, 1, kDue + 1'000, 4).view(), value);
  expect_fault("far", far_key(0, 1, kDue + 1'000, 4).view(), "job 4: key and record disagree");
}

TEST_F(CheckedFolder, AJobOfATubeThatDoesNotExistIsNamed) {
  JobRecord job = make_record(1, 7);
  job.body_size = 3;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kNear, job_key(0, 1).view(), value + "one");
  expect_fault("near", job_key(0, 1).view(), "job 1 is in tube number 7, which does not exist");
}

TEST_F(CheckedFolder, AnIdThatWasNotGivenOutIsNamed) {
  JobRecord job = make_record(99);
  job.body_size = 1;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kNear, job_key(0, 99).view(), value + "x");
  expect_fault("near", job_key(0, 99).view(), "job 99 has an id that was not given out yet");
}

TEST_F(CheckedFolder, AKeyThatIsNoFarJobsIsNamed) {
  const std::string key = key_key(0, 1, "nobody's");
  put_bytes(kKeys, key, encode_place({77, kDue, false}));
  expect_fault("keys", key, "job 77 has this key and is not far");
}

TEST_F(CheckedFolder, AFarJobThatItsKeyDoesNotFindIsNamed) {
  const std::string key = key_key(0, 1, "order-17");
  const std::string far = std::string(far_key(0, 1, kDue + 1'000, 4).view());
  erase(kKeys, key);
  expect_fault("far", far, "job 4 is not found by its key");
  put_bytes(kKeys, key, encode_place({4, kDue + 999, false}));
  expect_fault("far", far, "job 4 is not found by its key");
}

TEST_F(CheckedFolder, AFolderOfFormatOneIsSoundBackedUpAndRestored) {
  erase(kKeys, key_key(0, 1, "order-17"));
  // Without its key, as a build of then would have put it.
  JobRecord job = make_record(4);
  job.state = JobState::kDelayed;
  job.due_ms = kDue + 1'000;
  job.body_size = 4;
  std::string value;
  encode_job(job, JobMark::kPut, value);
  put_bytes(kFar, far_key(0, 1, kDue + 1'000, 4).view(), value);
  put_bytes(kCold, job_key(0, 4).view(), value + "four");
  put_bytes(kMeta, format_key().view(), encode_format({1, 1}));
  drop_keys();
  EXPECT_TRUE(check().sound());
  EXPECT_EQ(check().format, 1U);
  const std::string backup = folder_.path() + "/backup";
  ASSERT_TRUE(back_up_folder(path_, backup));
  const Result<BackupList> restored = restore_backup(backup, folder_.path() + "/restored");
  ASSERT_TRUE(restored) << restored.error().message;
  const Result<FolderReport> report = check_folder({folder_.path() + "/restored", 10, {}, {}});
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->sound());
  EXPECT_EQ(report->format, 1U);
}

TEST_F(CheckedFolder, StrangeKeysAreNamed) {
  put_bytes(kMeta, "x", "y");
  expect_fault("default", "x", "not known");
}

TEST_F(CheckedFolder, APartitionThatDoesNotExistIsNamed) {
  put_bytes(kNear, job_key(3, 1).view(), "x");
  expect_fault("near", job_key(3, 1).view(), "partition that does not exist");
}

TEST_F(CheckedFolder, ANewerFormatIsRefused) {
  put_bytes(kMeta, format_key().view(), encode_format({kFormatVersion + 1, 1}));
  FolderCheckOptions options;
  options.folder = path_;
  const Result<FolderReport> report = check_folder(options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(CheckedFolder, WhatWasAcknowledgedAndIsMissingIsAFault) {
  AcknowledgedMark::Value mark;
  mark.group = 99;
  write_file(path_ + "/ACKNOWLEDGED", AcknowledgedMark::file_of(mark));
  expect_fault("ACKNOWLEDGED", "", "write 99 was acknowledged, but only those up to 2");
}

TEST_F(CheckedFolder, AMissingFileIsAFault) {
  for (const std::string& table : testing::files_ending(path_, ".sst")) fs::remove(table);
  const FolderReport report = check();
  ASSERT_FALSE(report.sound());
  EXPECT_EQ(report.faults[0].place, "folder");
}

TEST_F(CheckedFolder, ADamagedBlockIsAFault) {
  for (const std::string& table : testing::files_ending(path_, ".sst")) {
    std::string bytes = testing::read_file(table);
    bytes[3] = static_cast<char>(bytes[3] ^ 1);
    write_file(table, bytes);
  }
  EXPECT_FALSE(check().sound());
}

TEST_F(CheckedFolder, AMissingCurrentIsAFault) {
  fs::remove(path_ + "/CURRENT");
  expect_fault("CURRENT", "", "is missing");
}

TEST_F(CheckedFolder, OnlySoManyFaultsAreDescribed) {
  change([&](rocksdb::WriteBatch& batch, const auto& families) {
    for (char c = 'A'; c <= 'Z'; ++c) (void)batch.Put(families[kMeta], std::string(1, c), "");
  });
  const FolderReport report = check(10);
  EXPECT_EQ(report.faults.size(), 10U);
  EXPECT_EQ(report.faults_found, 26U);
}

}  // namespace
}  // namespace carillon::store
