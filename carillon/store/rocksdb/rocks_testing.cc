// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/rocks_testing.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::store::testing {

namespace {

// In memory if there is room: these tests are about what is written, not about the disk, and on a
// busy one each folder costs half a second. TEST_TMPDIR overrides.
std::string parent_folder() {
  constexpr const char* kInMemory = "/dev/shm/";
  constexpr std::uintmax_t kEnough = std::uintmax_t{512} << 20;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(kInMemory, error);
  const bool usable = !error && space.available >= kEnough && ::access(kInMemory, W_OK) == 0;
  return usable && ::getenv("TEST_TMPDIR") == nullptr ? kInMemory : ::testing::TempDir();
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = parent_folder() + "carillon-store-XXXXXX";
  CARILLON_CHECK(::mkdtemp(pattern.data()) != nullptr, pattern);
  path_ = std::move(pattern);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> files_ending(const std::string& folder, std::string_view suffix) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
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
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    all[entry.path().filename().string()] = read_file(entry.path().string());
  }
  return all;
}

RocksOptions small_options(std::string folder) {
  RocksOptions options;
  options.folder = std::move(folder);
  options.memtable_bytes = 1 << 20;
  options.block_cache_bytes = 1 << 20;
  options.max_log_bytes = 1 << 20;
  options.min_free_bytes = 0;
  return options;
}

FaultyDatabase::FaultyDatabase()
    : options(small_options({})),
      disk_(std::make_shared<FaultFileSystem>()),
      env_(rocksdb::NewCompositeEnv(disk_)) {
  options.folder = folder_.path() + "/data";
  options.env = env_.get();
}

FaultyDatabase::~FaultyDatabase() { close(); }

Result<void> FaultyDatabase::try_open() {
  Result<std::unique_ptr<RocksDatabase>> opened = RocksDatabase::open(options);
  if (!opened) return std::move(opened.error());
  database_ = std::move(*opened);
  store_ = database_->open_partition(0);
  return {};
}

void FaultyDatabase::open() {
  const Result<void> opened = try_open();
  CARILLON_CHECK(opened.has_value(), opened.error().message);
}

void FaultyDatabase::close() {
  store_.reset();
  database_.reset();
}

void FaultyDatabase::kill() {
  disk_->power_off();
  close();
  disk_->power_on();
}

void FaultyDatabase::cut_power(std::size_t torn_bytes) {
  disk_->power_off();
  close();
  disk_->lose_unsynced(torn_bytes);
  disk_->power_on();
}

}  // namespace carillon::store::testing
