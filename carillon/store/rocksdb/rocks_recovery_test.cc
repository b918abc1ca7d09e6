// SPDX-License-Identifier: Apache-2.0
// What the RocksDB store makes of a folder as it finds it: after a kill, a power cut, damage,
// another version, another process.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <map>
#include <set>
#include <utility>
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
using broker::CommitSeq;
using broker::JobId;
using broker::Place;
using testing::FaultFileSystem;
using testing::FaultyDatabase;
using testing::make_batch;
using testing::make_record;
using testing::put;
using testing::Recovered;
using testing::small_options;
using testing::StoreDriver;
using testing::TemporaryFolder;

std::vector<std::string> files_ending(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(suffix)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    all[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return all;
}

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

TEST_F(Damage, AMarkThatIsMissingOrUnreadableIsDoneWithout) {
  fill(5);
  write_file(folder() + "/ACKNOWLEDGED", "garbage that is longer than a mark");
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U);
  database_.kill();
  fs::remove(folder() + "/ACKNOWLEDGED");
  database_.open();
  EXPECT_EQ(*count_jobs(database_.store()), 5U);
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

TEST_F(Damage, AnotherPartitionCountIsRefusedAndNamed) {
  database_.options.partition_count = 4;
  database_.open();
  database_.close();
  database_.options.partition_count = 2;
  const Result<void> opened = database_.try_open();
  ASSERT_FALSE(opened.has_value());
  EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(opened.error().message.find("has 4 partitions, partition_count is 2"),
            std::string::npos)
      << opened.error().message;
  database_.options.partition_count = 4;
  database_.open();
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
  database.options.lone_mutations = 0;
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
  const std::uint64_t synced = database.disk().synced_bytes(logs.front());
  ASSERT_GT(synced, 0U);
  ASSERT_LT(synced, fs::file_size(logs.front()));
  fs::resize_file(logs.front(), synced);
  ASSERT_GT(fs::file_size(logs.back()), 16'000U);
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
