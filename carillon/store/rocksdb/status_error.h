// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// RocksDB's statuses as our errors.

#include <string>
#include <string_view>

#include <rocksdb/status.h>

#include "carillon/base/result.h"

namespace carillon::store {

/// Pre: !status.ok(). The message begins with `context`.
[[nodiscard]] inline Error to_error(const rocksdb::Status& status, std::string_view context) {
  std::string text = status.ToString();
  ErrorCode code = ErrorCode::kIo;
  // RocksDB knows ENOSPC; a quota it passes on as text only.
  if (status.IsNoSpace() || text.find("Disk quota exceeded") != std::string::npos) {
    code = ErrorCode::kNoSpace;
  } else if (status.IsCorruption()) {
    code = ErrorCode::kCorrupt;
  }
  return Error{code, std::move(text)}.prefixed(context);
}

}  // namespace carillon::store
