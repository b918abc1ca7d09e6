// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/acknowledged_mark.h"

#include <gtest/gtest.h>

#include <string>

#include "carillon/store/rocksdb/folder_file_system.h"
#include "carillon/store/rocksdb/rocks_testing.h"

namespace carillon::store {
namespace {

using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;

TEST(AcknowledgedMark, SaysWhatItWasToldLastTime) {
  const TemporaryFolder folder;
  {
    AcknowledgedMark mark;
    ASSERT_TRUE(mark.open(folder.path()));
    EXPECT_FALSE(mark.value().has_value());
    EXPECT_TRUE(mark.set_manifest(5, 1'000));
    EXPECT_TRUE(mark.acknowledge(17));
    EXPECT_TRUE(mark.acknowledge(18));
    EXPECT_TRUE(mark.sync());
  }
  AcknowledgedMark mark;
  ASSERT_TRUE(mark.open(folder.path()));
  EXPECT_EQ(mark.value(), (AcknowledgedMark::Value{18, 5, 1'000}));
}

TEST(AcknowledgedMark, IsNoneIfAnyBitOfItIsWrong) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/ACKNOWLEDGED";
  {
    AcknowledgedMark mark;
    ASSERT_TRUE(mark.open(folder.path()));
    ASSERT_TRUE(mark.set_manifest(5, 1'000));
    ASSERT_TRUE(mark.acknowledge(17));
  }
  const std::string whole = read_file(path);
  ASSERT_EQ(whole.size(), 40U);
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    write_file(path, damaged);
    AcknowledgedMark mark;
    ASSERT_TRUE(mark.open(folder.path()));
    EXPECT_FALSE(mark.value().has_value()) << "bit " << bit;
  }
  write_file(path, whole.substr(0, 39));
  AcknowledgedMark mark;
  ASSERT_TRUE(mark.open(folder.path()));
  EXPECT_FALSE(mark.value().has_value());
}

TEST(AcknowledgedMark, NamesTheFileThatItCannotOpen) {
  AcknowledgedMark mark;
  const Result<void> opened = mark.open("/no/such/folder");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::kIo);
  EXPECT_NE(opened.error().message.find("/no/such/folder/ACKNOWLEDGED"), std::string::npos);
}

TEST(ManifestNumber, IsReadFromTheName) {
  EXPECT_EQ(manifest_number("MANIFEST-000123"), 123U);
  EXPECT_EQ(manifest_number("/data/MANIFEST-7"), 7U);
  EXPECT_EQ(manifest_number("/MANIFEST-5/CURRENT"), 0U);
  EXPECT_EQ(manifest_number("MANIFEST-"), 0U);
  EXPECT_EQ(manifest_number("MANIFEST-12x"), 0U);
  EXPECT_EQ(manifest_number("000012.log"), 0U);
  EXPECT_EQ(manifest_number(""), 0U);
}

}  // namespace
}  // namespace carillon::store
