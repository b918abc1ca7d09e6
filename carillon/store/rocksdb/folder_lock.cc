// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/folder_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace carillon::store {

FolderReadLock::~FolderReadLock() {
  if (file_ >= 0) ::close(file_);
}

FolderReadLock::FolderReadLock(FolderReadLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

FolderReadLock& FolderReadLock::operator=(FolderReadLock&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Result<FolderReadLock> FolderReadLock::take(const std::string& folder) {
  const auto failed = [&](const std::string& what) {
    return Error{errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
                 what + ": " + std::generic_category().message(errno)};
  };
  struct stat facts{};
  if (::stat(folder.c_str(), &facts) != 0) return failed("folder " + folder);
  if (!S_ISDIR(facts.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, folder + " is not a folder"};
  }
  const std::string path = folder + "/IN-USE";
  FolderReadLock lock;
  lock.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (lock.file_ < 0) {
    if (errno == ENOENT) return lock;
    return failed("open " + path);
  }
  struct flock shared{};
  shared.l_type = F_RDLCK;
  shared.l_whence = SEEK_SET;
  if (::fcntl(lock.file_, F_SETLK, &shared) != 0) {
    if (errno != EACCES && errno != EAGAIN) return failed("lock " + path);
    return Error{ErrorCode::kUnavailable, "folder " + folder + " is in use by a server"};
  }
  return lock;
}

}  // namespace carillon::store
