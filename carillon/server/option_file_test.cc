// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/option_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace carillon::server {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class OptionFile : public testing::Test {
 protected:
  OptionFile() {
    std::string pattern = testing::TempDir() + "carillon-option-file-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/file";
  }
  ~OptionFile() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void write(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  [[nodiscard]] std::string refusal(const std::string& path) const {
    const Result<std::string> read = read_option_file(path, "http-tokens");
    EXPECT_FALSE(read);
    return read ? std::string() : read.error().message;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(OptionFile, IsReadAsItIs) {
  const std::string text = std::string(200'000, 'x') + '\0' + "end";
  write(text);
  EXPECT_EQ(read_option_file(path_, "x").value(), text);
  write("");
  EXPECT_EQ(read_option_file(path_, "x").value(), "");
}

TEST_F(OptionFile, AFifoIsRefusedAndNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(refusal(path_), "http-tokens '" + path_ + "' cannot be read: it is not a regular file");
}

TEST_F(OptionFile, DevicesAndFoldersAreRefused) {
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal("/dev/null"), HasSubstr("it is not a regular file"));
  EXPECT_THAT(refusal(folder_), HasSubstr("Is a directory"));
  EXPECT_THAT(refusal(folder_ + "/none"), StartsWith("http-tokens '" + folder_ + "/none' cannot"));
}

TEST_F(OptionFile, HasALimit) {
  write(std::string(kMaxOptionFile, 'x'));
  EXPECT_TRUE(read_option_file(path_, "x"));
  write(std::string(kMaxOptionFile + 1, 'x'));
  EXPECT_THAT(refusal(path_), HasSubstr("it has more than 1 MiB"));
}

}  // namespace
}  // namespace carillon::server
