// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/acknowledged_mark.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace carillon::store {
namespace {

// 24 bytes, little-endian: "caril" and the version 01 as text, clean as '0' or '1', the number, its
// complement.
constexpr std::string_view kMagic = "caril01";
constexpr std::size_t kSize = 24;
using Bytes = std::array<char, kSize>;

void store_little_endian(char* at, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) at[i] = static_cast<char>(value >> (8 * i));
}

std::uint64_t load_little_endian(const char* at) noexcept {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<std::uint8_t>(at[i]);
  return value;
}

}  // namespace

AcknowledgedMark::~AcknowledgedMark() {
  if (file_ >= 0) ::close(file_);
}

Result<void> AcknowledgedMark::open(const std::string& folder) {
  if (file_ >= 0) return {};
  const std::string path = folder + "/ACKNOWLEDGED";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ >= 0) return {};
  const int error = errno;
  return Error{error == ENOSPC ? ErrorCode::kNoSpace : ErrorCode::kIo,
               "open " + path + ": " + std::strerror(error)};
}

std::optional<AcknowledgedMark::Value> AcknowledgedMark::read() const {
  Bytes bytes{};
  if (::pread(file_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return std::nullopt;
  }
  if (std::string_view(bytes.data(), kMagic.size()) != kMagic) return std::nullopt;
  const char clean = bytes[kMagic.size()];
  const std::uint64_t group = load_little_endian(bytes.data() + 8);
  if (load_little_endian(bytes.data() + 16) != ~group) return std::nullopt;
  return Value{group, clean == '1'};
}

bool AcknowledgedMark::write(const Value& value) noexcept {
  Bytes bytes{};
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  bytes[kMagic.size()] = value.clean ? '1' : '0';
  store_little_endian(bytes.data() + 8, value.group);
  store_little_endian(bytes.data() + 16, ~value.group);
  return ::pwrite(file_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
}

void AcknowledgedMark::sync() noexcept { (void)::fdatasync(file_); }

}  // namespace carillon::store
