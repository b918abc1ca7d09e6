// SPDX-License-Identifier: Apache-2.0
// A folder that is damaged, not whole, or of another version: refused, by name, and left as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <rocksdb/db.h>

#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/record_codec.h"
#include "carillon/store/rocksdb/rocks_settings.h"
#include "carillon/store/rocksdb/rocks_testing.h"
#include "carillon/store/store_testing.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;
using broker::JobId;
using broker::Place;
using testing::contents;
using testing::FaultyDatabase;
using testing::files_ending;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::read_file;
using testing::Recovered;
using testing::small_options;
using testing::StoreDriver;
using testing::write_file;

std::string manifest_of(const std::string& folder) {
  std::string name = read_file(folder + "/CURRENT");
  name.erase(name.find_last_not_of('\n') + 1);
  return folder + "/" + name;
}

Result<std::size_t> count_jobs(broker::Store& store) {
  Recovered recovered;
  if (Result<void> result = store.recover(recovered); !result) return result.error();
  return recovered.jobs.size();
}

// A folder whose log holds `jobs` acknowledged jobs, one a commit, as a kill leaves it.
class Damage : public ::testing::Test {
 protected:
  void fill(JobId jobs) {
    database_.open();
    StoreDriver driver(database_.store());
    Recovered nothing;
    ASSERT_TRUE(driver.recover(nothing));
    for (JobId id = 1; id <= jobs; ++id) {
      ASSERT_TRUE(
          driver.commit(make_batch({put(make_record(id), Place::kNear, std::string(300, 'x'))})));
    }
    database_.kill();
  }
  std::string log_path() {
    std::string largest;
    for (const std::string& path : files_ending(folder(), ".log")) {
      if (largest.empty() || fs::file_size(path) > fs::file_size(largest)) largest = path;
    }
    return largest;
  }
  void expect_corrupt(const std::string& part) {
    const Result<void> opened = database_.try_open();
    if (opened) database_.kill();
    ASSERT_FALSE(opened.has_value());
    EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt) << opened.error().message;
    EXPECT_NE(opened.error().message.find(part), std::string::npos) << opened.error().message;
    EXPECT_NE(opened.error().message.find(folder()), std::string::npos) << opened.error().message;
  }
  const std::string& folder() { return database_.options.folder; }

  FaultyDatabase database_;
};

TEST_F(Damage, NoneIsFoundAfterAKill) {
  fill(20);
  ASSERT_FALSE(log_path().empty());
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 20U);
}

TEST_F(Damage, ADamagedByteInTheMiddleOfTheLogIsNotPassedOverInSilence) {
  fill(20);
  const std::string log = log_path();
  const std::string whole = read_file(log);
  for (const std::size_t at : {whole.size() / 10, whole.size() / 2, whole.size() - 10}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    write_file(log, damaged);
    const auto before = contents(folder());
    expect_corrupt("was acknowledged");
    // A refusal changes nothing: what can be saved can still be saved.
    EXPECT_EQ(contents(folder()), before);
  }
  write_file(log, whole);
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 20U);
}

TEST_F(Damage, ALogCutShortBelowWhatWasAcknowledgedIsRefused) {
  fill(20);
  fs::resize_file(log_path(), fs::file_size(log_path()) / 2);
  expect_corrupt("was acknowledged");
}

TEST_F(Damage, AMissingLogIsRefused) {
  fill(20);
  fs::remove(log_path());
  expect_corrupt("");
}

TEST_F(Damage, ALossIsAcceptedOnlyWhenAskedFor) {
  fill(20);
  fs::resize_file(log_path(), fs::file_size(log_path()) / 2);
  std::string logged;
  database_.options.accept_loss = true;
  database_.options.log = [&logged](LogLevel level, std::string_view message) {
    if (level == LogLevel::kError) logged.append(message);
  };
  database_.open();
  const std::size_t jobs = *count_jobs(database_.store());
  EXPECT_GT(jobs, 0U);
  EXPECT_LT(jobs, 20U);
  EXPECT_NE(logged.find("the loss is accepted"), std::string::npos) << logged;
  // From then on the folder is whole.
  database_.kill();
  database_.options.accept_loss = false;
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), jobs);
}

TEST_F(Damage, AnEmptyFolderInPlaceOfTheDatabaseIsRefused) {
  fill(5);
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().filename() != "ACKNOWLEDGED") fs::remove(entry.path());
  }
  expect_corrupt("was acknowledged");
}

TEST_F(Damage, AMarkThatIsMissingOrUnreadableIsDamageItself) {
  fill(5);
  const std::string path = folder() + "/ACKNOWLEDGED";
  std::string mark = read_file(path);
  write_file(path, "garbage that is longer than a mark");
  expect_corrupt("ACKNOWLEDGED is missing or cannot be made out");
  mark[9] ^= 1;
  write_file(path, mark);
  expect_corrupt("ACKNOWLEDGED is missing or cannot be made out");
  write_file(path, "");
  expect_corrupt("ACKNOWLEDGED is missing or cannot be made out");
  fs::remove(path);
  expect_corrupt("ACKNOWLEDGED is missing or cannot be made out");
  database_.options.accept_loss = true;
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U);
  database_.kill();
  database_.options.accept_loss = false;
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U) << "it has one again";
}

TEST_F(Damage, AFolderHasAMarkBeforeItHasADatabase) {
  database_.open();
  database_.kill();
  EXPECT_TRUE(AcknowledgedMark::read_only(folder()));
  // A start that was killed in between leaves a mark alone.
  for (const auto& entry : fs::directory_iterator(folder())) {
    if (entry.path().filename() != "ACKNOWLEDGED") fs::remove_all(entry.path());
  }
  write_file(folder() + "/ACKNOWLEDGED", AcknowledgedMark::file_of({}));
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 0U);
}

TEST_F(Damage, ATruncatedManifestIsRefusedWithAClearError) {
  fill(5);
  const std::string manifest = manifest_of(folder());
  const std::string whole = read_file(manifest);
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2}) {
    write_file(manifest, whole.substr(0, size));
    expect_corrupt("data folder");
  }
  write_file(manifest, whole);
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U);
}

TEST_F(Damage, AManifestThatHasLostItsLastEntriesIsRefused) {
  // Flushed files that the shortened manifest does not know, whose log is gone: the jobs in them
  // would be missing without a word.
  database_.options.max_log_bytes = 64 << 10;
  database_.options.memtable_bytes = 128 << 10;
  fill(2'000);
  const std::string saved = folder() + ".saved";
  fs::copy(folder(), saved, fs::copy_options::recursive);
  const std::string whole = read_file(manifest_of(folder()));
  int refused = 0;
  for (std::size_t cut = 1; cut < whole.size(); cut += whole.size() / 25 + 1) {
    SCOPED_TRACE("cut " + std::to_string(cut) + " of " + std::to_string(whole.size()));
    fs::remove_all(folder());
    fs::copy(saved, folder(), fs::copy_options::recursive);
    write_file(manifest_of(folder()), whole.substr(0, whole.size() - cut));
    const Result<void> opened = database_.try_open();
    if (opened) {
      EXPECT_EQ(*count_jobs(database_.store()), 2'000U);
      database_.kill();
    } else {
      EXPECT_EQ(opened.error().code, ErrorCode::kCorrupt) << opened.error().message;
      ++refused;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST_F(Damage, AMissingOrMeaninglessCurrentIsRefused) {
  fill(5);
  const std::string current = read_file(folder() + "/CURRENT");
  fs::remove(folder() + "/CURRENT");
  expect_corrupt("CURRENT");
  write_file(folder() + "/CURRENT", "MANIFEST-no-such\n");
  const Result<void> opened = database_.try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find(folder()), std::string::npos) << opened.error().message;
  write_file(folder() + "/CURRENT", current);
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U);
}

TEST_F(Damage, AnUnreadableBlockFailsTheReadsThatNeedItAndNoOthers) {
  database_.open();
  StoreDriver driver(database_.store());
  ASSERT_TRUE(driver.commit(make_batch(
      {put(make_record(1), Place::kNear, "near"), put(make_record(2), Place::kFar, "far")})));
  database_.close();  // flushes: a file of `near`, one of `cold`, one of `far`
  bool damaged = false;
  for (const std::string& path : files_ending(folder(), ".sst")) {
    std::string bytes = read_file(path);
    const std::size_t at = bytes.find("near");
    if (at == std::string::npos || bytes.find("near", at + 4) == std::string::npos) continue;
    // The body; the family's name stands further behind.
    bytes[at] = 'N';
    write_file(path, bytes);
    damaged = true;
  }
  ASSERT_TRUE(damaged);
  database_.open();
  driver.use(database_.store());
  const auto near = driver.fetch(1);
  ASSERT_FALSE(near.has_value());
  EXPECT_EQ(near.error().code, ErrorCode::kCorrupt) << near.error().message;
  const auto far = driver.fetch(2);
  ASSERT_TRUE(far.has_value()) << far.error().message;
  EXPECT_EQ((*far)->body.view(), "far");
  const Result<std::size_t> jobs = count_jobs(database_.store());
  ASSERT_FALSE(jobs.has_value()) << "must not come up without the job";
  EXPECT_EQ(jobs.error().code, ErrorCode::kCorrupt);
}

// Opens the folder with RocksDB alone and changes it behind the store's back.
void tamper(
    const std::string& folder,
    const std::function<void(rocksdb::DB&, std::vector<rocksdb::ColumnFamilyHandle*>&)>& with) {
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const RocksOptions options = small_options(folder);
  rocksdb::Status status =
      rocksdb::DB::Open(make_db_options(options), folder,
                        make_families(options, rocksdb::NewLRUCache(1 << 20)), &handles, &db);
  ASSERT_TRUE(status.ok()) << status.ToString();
  with(*db, handles);
  for (rocksdb::ColumnFamilyHandle* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  delete db;
}

TEST_F(Damage, AMalformedRecordIsNamedByItsKey) {
  database_.open();
  database_.close();
  const struct {
    Family family;
    std::string key;
    std::string value;
    std::string expected;
  } kCases[] = {
      {kNear, std::string(job_key(0, 7).view()), "\x01", "family near, key 00000000000000000007"},
      {kNear, std::string(job_key(0, 7).view()), "\x09xxxxxxx", "version 9"},
      {kNear, std::string("\0\0short", 7), "x", "malformed key"},
      {kState, std::string(job_key(0, 8).view()), "", "family state"},
      {kMeta, std::string(tube_key(0, 3).view()), "\x01", "malformed tube"},
      {kMeta, std::string(tube_key(0, 3).view()), encode_tube({4, "x", 0, 0, 0, 0}), "disagree"},
      {kMeta, std::string(partition_key(0).view()), "\x01\x01", "malformed partition"},
  };
  for (const auto& bad : kCases) {
    tamper(folder(), [&bad](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
      ASSERT_TRUE(db.Put({}, families[bad.family], bad.key, bad.value).ok());
    });
    database_.open();
    const Result<std::size_t> jobs = count_jobs(database_.store());
    ASSERT_FALSE(jobs.has_value()) << bad.expected;
    EXPECT_EQ(jobs.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(jobs.error().message.find(bad.expected), std::string::npos) << jobs.error().message;
    database_.close();
    tamper(folder(), [&bad](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
      ASSERT_TRUE(db.Delete({}, families[bad.family], bad.key).ok());
    });
  }
}

TEST_F(Damage, AnUpdateWithoutItsJobIsRefused) {
  database_.open();
  StoreDriver driver(database_.store());
  broker::JobRecord record = make_record(5);
  ASSERT_TRUE(driver.commit(make_batch({put(record, Place::kNear, "x")})));
  record.body_size = 1;
  ASSERT_TRUE(driver.commit(make_batch({testing::update(record, Place::kNear)})));
  database_.close();
  tamper(folder(), [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    ASSERT_TRUE(db.Delete({}, families[kNear], job_key(0, 5).view()).ok());
  });
  database_.open();
  driver.use(database_.store());
  const Result<std::size_t> jobs = count_jobs(database_.store());
  ASSERT_FALSE(jobs.has_value());
  EXPECT_NE(jobs.error().message.find("does not match"), std::string::npos) << jobs.error().message;
  const auto job = driver.fetch(5);
  ASSERT_FALSE(job.has_value());
  EXPECT_EQ(job.error().code, ErrorCode::kCorrupt);
}

TEST_F(Damage, WhatIsDamagedAmongNeighboursIsNamedAndTheOthersAreRead) {
  constexpr broker::JobId kJobs = 50;
  database_.open();
  StoreDriver driver(database_.store());
  for (broker::JobId id = 1; id <= kJobs; ++id) {
    ASSERT_TRUE(driver.commit(make_batch({put(make_record(id), Place::kNear, "x")})));
  }
  database_.close();
  tamper(folder(), [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    ASSERT_TRUE(db.Put({}, families[kNear], job_key(0, 20).view(), "no record").ok());
    const std::string no_id = std::string(job_key(0, 30).view()) + "and more";
    ASSERT_TRUE(db.Put({}, families[kNear], no_id, "x").ok());
  });
  database_.open();
  driver.use(database_.store());
  std::vector<broker::WantedJob> wanted;
  for (broker::JobId id = 1; id <= kJobs; ++id) wanted.push_back({id, Place::kNear});
  const auto jobs = driver.fetch(wanted);
  ASSERT_EQ(jobs.size(), kJobs);
  for (broker::JobId id = 1; id <= kJobs; ++id) {
    const auto& job = jobs[id - 1];
    ASSERT_EQ(job.has_value(), id != 20) << id;
    if (job) {
      EXPECT_TRUE(*job && (*job)->body.view() == "x") << id;
    }
  }
  EXPECT_EQ(jobs[19].error().code, ErrorCode::kCorrupt);
  EXPECT_NE(jobs[19].error().message.find("family near, key "), std::string::npos)
      << jobs[19].error().message;
}

TEST_F(Damage, ANewerFormatIsRefusedAndNamed) {
  database_.open();
  database_.close();
  tamper(folder(), [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    // Whatever a newer format puts behind its version.
    ASSERT_TRUE(db.Put({}, families[kMeta], format_key().view(),
                       encode_format({kFormatVersion + 1, 1}) + "more")
                    .ok());
  });
  const std::string expected = "format version " + std::to_string(kFormatVersion + 1) +
                               ", this build reads up to version " + std::to_string(kFormatVersion);
  Result<void> opened = database_.try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find(expected), std::string::npos) << opened.error().message;

  // It may have families that this build does not know; the version is still what is named.
  tamper(folder(), [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    rocksdb::ColumnFamilyHandle* added = nullptr;
    ASSERT_TRUE(db.CreateColumnFamily({}, "index", &added).ok());
    families.push_back(added);
  });
  const auto before = contents(folder());
  opened = database_.try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find(expected), std::string::npos) << opened.error().message;
  EXPECT_EQ(contents(folder()), before);
}

/// Makes of an open folder with nothing new in it the folder that a build of format 1 would have
/// left: values that have nothing new are the same bytes.
void make_version_1(const std::string& folder) {
  tamper(folder, [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    ASSERT_TRUE(db.Put({}, families[kMeta], format_key().view(), encode_format({1, 1})).ok());
    ASSERT_TRUE(db.DropColumnFamily(families[kKeys]).ok());
  });
}

TEST_F(Damage, AFolderOfFormatOneIsReadAndRaised) {
  database_.open();
  {
    StoreDriver driver(database_.store());
    Recovered empty;
    ASSERT_TRUE(driver.recover(empty));
    auto batch = make_batch({put(make_record(1), Place::kNear, "near")});
    testing::add_tube(*batch, {1, "t", 1, 500, 0, 0});
    broker::JobRecord far = make_record(2);
    far.state = broker::JobState::kDelayed;
    far.due_ms = 500;
    batch->mutations.push_back(put(far, Place::kFar, "far"));
    ASSERT_TRUE(driver.commit(std::move(batch)));
  }
  database_.close();
  make_version_1(folder());
  std::vector<std::string> said;
  database_.options.log = [&said](LogLevel, std::string_view line) { said.emplace_back(line); };
  for (std::size_t opening = 0; opening < 2; ++opening) {
    database_.open();
    StoreDriver driver(database_.store());
    Recovered recovered;
    ASSERT_TRUE(driver.recover(recovered));
    ASSERT_EQ(recovered.jobs.size(), 1 + opening);
    EXPECT_EQ(recovered.jobs[0].record.id, 1U);
    EXPECT_EQ((*driver.fetch(2))->body.view(), "far");
    // What is new can be stored at once.
    if (opening == 0) {
      broker::JobRecord keyed = make_record(3);
      keyed.extras = testing::with_key("k");
      ASSERT_TRUE(driver.commit(make_batch({put(keyed, Place::kNear, "x")})));
      database_.kill();
    } else {
      EXPECT_EQ(recovered.jobs[1].record.extras->key, "k");
      database_.close();
    }
  }
  const auto is_about_it = [](const std::string& line) {
    return line.find("had format version 1 and now has 2") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(said.begin(), said.end(), is_about_it), 1);
  tamper(folder(), [](rocksdb::DB& db, std::vector<rocksdb::ColumnFamilyHandle*>& families) {
    std::string value;
    ASSERT_TRUE(db.Get({}, families[kMeta], format_key().view(), &value).ok());
    EXPECT_EQ(decode_format(value)->version, 2U);
  });
}

TEST_F(Damage, AnotherPartitionCountIsRefusedAndNamed) {
  database_.options.partition_count = 4;
  database_.open();
  database_.close();
  database_.options.partition_count = 2;
  const Result<void> opened = database_.try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("has 4 partitions, but the option partitions is 2"),
            std::string::npos)
      << opened.error().message;
  database_.options.partition_count = 4;
  database_.open();
}

}  // namespace
}  // namespace carillon::store
