// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Keeps a server from opening a data folder while it is read.

#include <string>

#include "carillon/base/result.h"

namespace carillon::store {

/// Holds a shared lock of `<folder>/IN-USE`, which whoever opens the folder locks exclusively. If
/// there is no such file nobody has ever opened it, and there is nothing to lock.
///
/// Threads: one. The lock belongs to the process: a second one of the same folder ends with either.
class FolderReadLock {
 public:
  FolderReadLock() = default;
  ~FolderReadLock();
  FolderReadLock(FolderReadLock&& other) noexcept;
  FolderReadLock& operator=(FolderReadLock&& other) noexcept;

  /// kUnavailable: it is in use; kNotFound: there is no such folder; kIo.
  [[nodiscard]] static Result<FolderReadLock> take(const std::string& folder);

 private:
  int file_ = -1;
};

}  // namespace carillon::store
