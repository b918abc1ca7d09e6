// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/manifest_watch.h"

#include <charconv>
#include <utility>

namespace carillon::store {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

class WatchedFile final : public rocksdb::FSWritableFileWrapper {
 public:
  WatchedFile(std::unique_ptr<rocksdb::FSWritableFile> file, std::uint64_t number,
              const ManifestWatch::Synced& synced)
      : FSWritableFileWrapper(file.get()),
        file_(std::move(file)),
        number_(number),
        synced_(synced) {}

  // RocksDB appends to and syncs a manifest from one thread at a time.
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* debug) override {
    return count(data.size(), target()->Append(data, options, debug));
  }
  IOStatus Append(const Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo& info, IODebugContext* debug) override {
    return count(data.size(), target()->Append(data, options, info, debug));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    return tell(target()->Sync(options, debug));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return tell(target()->Fsync(options, debug));
  }

 private:
  IOStatus count(std::size_t bytes, IOStatus status) {
    if (status.ok()) bytes_ += bytes;
    return status;
  }
  IOStatus tell(IOStatus status) {
    if (status.ok()) synced_(number_, bytes_);
    return status;
  }

  const std::unique_ptr<rocksdb::FSWritableFile> file_;
  const std::uint64_t number_;
  const ManifestWatch::Synced& synced_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

IOStatus ManifestWatch::NewWritableFile(const std::string& path,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSWritableFile>* file,
                                        IODebugContext* debug) {
  IOStatus status = target()->NewWritableFile(path, options, file, debug);
  const std::uint64_t number = manifest_number(path);
  if (status.ok() && number != 0) {
    *file = std::make_unique<WatchedFile>(std::move(*file), number, synced_);
  }
  return status;
}

std::uint64_t manifest_number(std::string_view path) noexcept {
  constexpr std::string_view kPrefix = "MANIFEST-";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kPrefix)) return 0;
  const std::string_view digits = name.substr(kPrefix.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? number : 0;
}

}  // namespace carillon::store
