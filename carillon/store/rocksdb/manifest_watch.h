// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A file system that tells how much of RocksDB's manifest has been synced.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <rocksdb/file_system.h>

namespace carillon::store {

/// Passes everything on to another file system.
///
/// Threads: safe if `synced` is. `synced` is called by whichever thread has synced a manifest, with
/// the
///          number in its name and its size up to which it is durable.
class ManifestWatch final : public rocksdb::FileSystemWrapper {
 public:
  using Synced = std::function<void(std::uint64_t number, std::uint64_t bytes)>;

  ManifestWatch(const std::shared_ptr<rocksdb::FileSystem>& target, Synced synced)
      : rocksdb::FileSystemWrapper(target), synced_(std::move(synced)) {}

  static const char* kClassName() { return "ManifestWatch"; }
  const char* Name() const override { return kClassName(); }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;

 private:
  const Synced synced_;
};

/// The number in a manifest's name, "MANIFEST-000123" with or without folders before it; 0 if it is
/// none.
[[nodiscard]] std::uint64_t manifest_number(std::string_view path) noexcept;

}  // namespace carillon::store
