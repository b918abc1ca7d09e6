// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/prefilled_log.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "carillon/store/rocksdb/rocks_testing.h"

namespace carillon::store {
namespace {

using rocksdb::FileOptions;
using rocksdb::IOOptions;
using testing::read_file;

class PrefilledLogTest : public ::testing::Test {
 protected:
  PrefilledLogTest() : path_(folder_.path() + "/000001.log") {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    EXPECT_TRUE(
        rocksdb::FileSystem::Default()->NewWritableFile(path_, FileOptions(), &file, nullptr).ok());
    log_ = std::make_unique<PrefilledLog>(std::move(file));
  }
  void append(const std::string& bytes) {
    ASSERT_TRUE(log_->Append(bytes, IOOptions(), nullptr).ok());
    appended_ += bytes;
    ASSERT_EQ(log_->GetFileSize(IOOptions(), nullptr), appended_.size());
  }
  void sync() { ASSERT_TRUE(log_->Sync(IOOptions(), nullptr).ok()); }
  std::size_t zeros() {
    const std::string all = read_file(path_);
    EXPECT_EQ(all.substr(0, appended_.size()), appended_);
    EXPECT_EQ(all.find_first_not_of('\0', appended_.size()), std::string::npos);
    return all.size() - appended_.size();
  }

  const testing::TemporaryFolder folder_;
  const std::string path_;
  std::unique_ptr<PrefilledLog> log_;
  std::string appended_;
};

TEST_F(PrefilledLogTest, SmallSyncsFindZerosAheadUpToTheEndOfABlock) {
  for (int i = 0; i < 3'000; ++i) {
    append(std::string(230, static_cast<char>('a' + i % 26)));
    sync();
    if (i % 100 == 0) {
      EXPECT_GT(zeros(), 0U) << i;
      EXPECT_EQ((appended_.size() + zeros()) % 32'768, 0U);
    }
  }
}

TEST_F(PrefilledLogTest, LargeSyncsWriteNothingTwice) {
  for (int i = 0; i < 40; ++i) {
    append(std::string(100'000, 'x'));
    sync();
  }
  EXPECT_EQ(zeros(), 0U);
}

TEST_F(PrefilledLogTest, ALogThatIsNotSyncedIsNotFilledAgain) {
  for (int i = 0; i < 20'000; ++i) append(std::string(100, 'x'));
  EXPECT_EQ(zeros(), 0U);
}

TEST_F(PrefilledLogTest, ReturnsToFillingWhenSyncsBecomeSmallAgain) {
  for (int i = 0; i < 40; ++i) append(std::string(100'000, 'x'));
  for (int i = 0; i < 6'000; ++i) {
    append(std::string(230, 'y'));
    sync();
  }
  EXPECT_GT(zeros(), 0U);
}

TEST_F(PrefilledLogTest, AnOrderlyCloseLeavesNoZeros) {
  append("something");
  sync();
  EXPECT_GT(zeros(), 0U);
  ASSERT_TRUE(log_->Close(IOOptions(), nullptr).ok());
  EXPECT_EQ(read_file(path_), "something");
}

TEST_F(PrefilledLogTest, AnEmptyLogIsEmpty) {
  ASSERT_TRUE(log_->Close(IOOptions(), nullptr).ok());
  EXPECT_EQ(read_file(path_), "");
}

}  // namespace
}  // namespace carillon::store
