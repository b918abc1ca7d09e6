// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A note, beside the database, of how far commits have been acknowledged.
///
/// A log that ends in a torn record is what a power cut leaves, and is opened without complaint; a
/// log that is damaged in the middle looks the same to RocksDB, which stops there and silently
/// drops what follows. The mark tells the two apart: what the database holds after recovery must
/// reach at least as far as what had been acknowledged. Docs: docs/internals/storage.md.

#include <cstdint>
#include <optional>
#include <string>

#include "carillon/base/result.h"

namespace carillon::store {

/// The file `<folder>/ACKNOWLEDGED`.
///
/// It is written after each sync but not itself synced: after a kill it is exact, after a power cut
/// it may be behind by what the kernel had not written back (seconds), and it is never ahead. So it
/// never accuses a healthy folder.
///
/// Threads: one at a time.
class AcknowledgedMark {
 public:
  struct Value {
    std::uint64_t group = 0;  ///< Number of the last acknowledged write; the database has it too.
    bool clean = false;       ///< Written by a clean stop, with nothing left in the log.
    bool operator==(const Value&) const = default;
  };

  AcknowledgedMark() = default;
  ~AcknowledgedMark();
  AcknowledgedMark(const AcknowledgedMark&) = delete;
  AcknowledgedMark& operator=(const AcknowledgedMark&) = delete;

  /// Opens or creates the file.
  Result<void> open(const std::string& folder);
  /// nullopt: none was ever written, or it cannot be made out.
  [[nodiscard]] std::optional<Value> read() const;
  /// Best effort: a mark that is behind is a weaker check and nothing worse. Returns whether it was
  /// written.
  bool write(const Value& value) noexcept;
  /// Makes the last write durable, best effort.
  void sync() noexcept;

 private:
  int file_ = -1;
};

}  // namespace carillon::store
