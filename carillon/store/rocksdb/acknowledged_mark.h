// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A note, beside the database, of what it must hold at least: how far writes have been
/// acknowledged, and how long its manifest is.
///
/// A log that ends in a torn record is what a power cut leaves, and is opened without complaint; a
/// log that is damaged in the middle looks the same to RocksDB, which stops there and silently
/// drops what follows. A manifest that has lost its end is just an older manifest to it. The mark
/// tells damage from a crash. docs/decisions/0009-acknowledged-mark.md

#include <cstdint>
#include <optional>
#include <string>

#include "carillon/base/mutex.h"
#include "carillon/base/result.h"

namespace carillon::store {

/// The file `<folder>/ACKNOWLEDGED`.
///
/// It is written after each sync but not itself synced: after a kill it is exact, after a power cut
/// it may be behind by what the kernel had not written back (seconds), and it is never ahead. So it
/// never accuses a healthy folder.
///
/// Threads: safe.
/// Cost:    one small pwrite a change.
class AcknowledgedMark {
 public:
  struct Value {
    std::uint64_t group = 0;            ///< The last acknowledged write; the database numbers them.
    std::uint64_t manifest_number = 0;  ///< The manifest written to last ...
    std::uint64_t manifest_bytes = 0;   ///< ... and how much of it was synced.
    bool clean = false;                 ///< Written by a clean stop, with nothing left in the log.
    bool operator==(const Value&) const = default;
  };

  AcknowledgedMark() = default;
  ~AcknowledgedMark();
  AcknowledgedMark(const AcknowledgedMark&) = delete;
  AcknowledgedMark& operator=(const AcknowledgedMark&) = delete;

  /// Opens or creates the file, and from then on says what it said.
  Result<void> open(const std::string& folder);
  /// Writes one that promises nothing and makes it and its name durable: before there is a database
  /// that could hold anything. So a database without a mark has lost it.
  Result<void> begin(const std::string& folder);
  /// What the file of `folder` says, without touching it; nullopt as value().
  [[nodiscard]] static std::optional<Value> read_only(const std::string& folder);
  /// The bytes of a file that says `value`.
  [[nodiscard]] static std::string file_of(const Value& value);
  /// nullopt: none was ever written, or it could not be made out.
  [[nodiscard]] std::optional<Value> value() const;

  // Best effort: a mark that is behind is a weaker check and nothing worse. They return whether it
  // was written.

  bool acknowledge(std::uint64_t group) noexcept;
  bool set_manifest(std::uint64_t number, std::uint64_t bytes) noexcept;
  /// Makes it durable.
  bool sync() noexcept;

 private:
  bool write() noexcept CARILLON_REQUIRES(mutex_);

  mutable Mutex mutex_;
  int file_ CARILLON_GUARDED_BY(mutex_) = -1;
  std::optional<Value> value_ CARILLON_GUARDED_BY(mutex_);
};

}  // namespace carillon::store
