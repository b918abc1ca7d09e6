// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/acknowledged_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace carillon::store {
namespace {

// 40 bytes: a magic text with the version at its end; then, little-endian, the group, the number of
// the manifest and its bytes, and the exclusive or of the three, inverted.
constexpr std::string_view kMagic = "carill01";
constexpr std::size_t kSize = 40;
using Bytes = std::array<char, kSize>;

void store_little_endian(char* at, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) at[i] = static_cast<char>(value >> (8 * i));
}

std::uint64_t load_little_endian(const char* at) noexcept {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(at[i]);
  return value;
}

std::uint64_t checksum(const AcknowledgedMark::Value& value) noexcept {
  return ~(value.group ^ value.manifest_number ^ value.manifest_bytes);
}

std::optional<AcknowledgedMark::Value> read_value(int file) noexcept {
  Bytes bytes{};
  if (::pread(file, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return std::nullopt;
  }
  if (std::string_view(bytes.data(), kMagic.size()) != kMagic) return std::nullopt;
  AcknowledgedMark::Value value;
  value.group = load_little_endian(bytes.data() + 8);
  value.manifest_number = load_little_endian(bytes.data() + 16);
  value.manifest_bytes = load_little_endian(bytes.data() + 24);
  if (load_little_endian(bytes.data() + 32) != checksum(value)) return std::nullopt;
  return value;
}

Bytes bytes_of(const AcknowledgedMark::Value& value) noexcept {
  Bytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  store_little_endian(bytes.data() + 8, value.group);
  store_little_endian(bytes.data() + 16, value.manifest_number);
  store_little_endian(bytes.data() + 24, value.manifest_bytes);
  store_little_endian(bytes.data() + 32, checksum(value));
  return bytes;
}

}  // namespace

AcknowledgedMark::~AcknowledgedMark() {
  if (file_ >= 0) ::close(file_);
}

Result<void> AcknowledgedMark::open(const std::string& folder) {
  const MutexLock lock(mutex_);
  if (file_ >= 0) return {};
  const std::string path = folder + "/ACKNOWLEDGED";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) {
    const int error = errno;
    return Error{error == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
                 "open " + path + ": " + std::strerror(error)};
  }
  value_ = read_value(file_);
  return {};
}

Result<void> AcknowledgedMark::begin(const std::string& folder) {
  const MutexLock lock(mutex_);
  value_ = Value{};
  const int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool done = directory >= 0 && write() && ::fsync(file_) == 0 && ::fsync(directory) == 0;
  const int error = errno;
  if (directory >= 0) ::close(directory);
  if (done) return {};
  return Error{error == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
               "write " + folder + "/ACKNOWLEDGED: " + std::strerror(error)};
}

std::optional<AcknowledgedMark::Value> AcknowledgedMark::read_only(const std::string& folder) {
  const int file = ::open((folder + "/ACKNOWLEDGED").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  const std::optional<Value> value = read_value(file);
  ::close(file);
  return value;
}

std::string AcknowledgedMark::file_of(const Value& value) {
  const Bytes bytes = bytes_of(value);
  return {bytes.data(), bytes.size()};
}

std::optional<AcknowledgedMark::Value> AcknowledgedMark::value() const {
  const MutexLock lock(mutex_);
  return value_;
}

bool AcknowledgedMark::acknowledge(std::uint64_t group) noexcept {
  const MutexLock lock(mutex_);
  if (!value_) value_ = Value{};
  value_->group = group;
  return write();
}

bool AcknowledgedMark::set_manifest(std::uint64_t number, std::uint64_t bytes) noexcept {
  const MutexLock lock(mutex_);
  if (!value_) value_ = Value{};
  value_->manifest_number = number;
  value_->manifest_bytes = bytes;
  return write();
}

bool AcknowledgedMark::sync() noexcept {
  const MutexLock lock(mutex_);
  return ::fdatasync(file_) == 0;
}

bool AcknowledgedMark::write() noexcept {
  const Bytes bytes = bytes_of(*value_);
  return ::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

}  // namespace carillon::store
