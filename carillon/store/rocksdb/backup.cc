// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/backup.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "carillon/base/clock.h"
#include "carillon/store/rocksdb/acknowledged_mark.h"
#include "carillon/store/rocksdb/folder_lock.h"
#include "carillon/store/rocksdb/restore_ids.h"

namespace carillon::store {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "carillon backup 1";
constexpr std::string_view kLastLine = "end";
/// Copied between two looks at whether to stop.
constexpr std::size_t kChunk = std::size_t{4} << 20;

Error failed(const std::string& what, int error) {
  ErrorCode code = ErrorCode::kIo;
  if (error == ENOSPC || error == EDQUOT) code = ErrorCode::kNoSpace;
  if (error == ENOENT) code = ErrorCode::kNotFound;
  return {code, what + ": " + std::generic_category().message(error)};
}

/// An open file, closed at the end of the scope.
class File {
 public:
  File(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0640)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  const int fd_;
};

Result<void> sync_folder(const std::string& folder) {
  const File file(folder, O_RDONLY | O_DIRECTORY);
  if (file.get() < 0 || ::fsync(file.get()) != 0) return failed("sync " + folder, errno);
  return {};
}

Result<void> write_all(const File& file, const std::string& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("write " + path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

/// A new file with these bytes, durable but for its name.
Result<void> write_file(const std::string& path, std::string_view bytes) {
  const File file(path, O_WRONLY | O_CREAT | O_EXCL);
  if (file.get() < 0) return failed("make " + path, errno);
  if (Result<void> written = write_all(file, path, bytes); !written) return written;
  if (::fsync(file.get()) != 0) return failed("sync " + path, errno);
  return {};
}

/// The next bytes of `from` behind those of `to`; 0 at its end. Shares blocks where it can.
ssize_t copy_some(const File& from, const File& to, std::size_t bytes, std::string& buffer) {
  const ssize_t copied = ::copy_file_range(from.get(), nullptr, to.get(), nullptr, bytes, 0);
  if (copied > 0) return copied;
  // 0 may also be a file system that cannot: reading tells.
  buffer.resize(std::min(bytes, std::size_t{1} << 20));
  const ssize_t got = ::read(from.get(), buffer.data(), buffer.size());
  if (got <= 0) return got;
  for (ssize_t done = 0; done < got;) {
    const ssize_t written =
        ::write(to.get(), buffer.data() + done, static_cast<std::size_t>(got - done));
    if (written < 0 && errno != EINTR) return written;
    done += std::max<ssize_t>(written, 0);
  }
  return got;
}

Result<void> copy_file(const std::string& from, const std::string& to, std::uint64_t bytes,
                       const std::stop_token& stop) {
  const File source(from, O_RDONLY);
  if (source.get() < 0) return failed("read " + from, errno);
  const File target(to, O_WRONLY | O_CREAT | O_EXCL);
  if (target.get() < 0) return failed("make " + to, errno);
  std::string buffer;
  for (std::uint64_t left = bytes; left > 0;) {
    if (stop.stop_requested()) return Error{ErrorCode::kUnavailable, "the backup was given up"};
    const ssize_t copied = copy_some(source, target, std::min<std::uint64_t>(left, kChunk), buffer);
    if (copied < 0 && errno == EINTR) continue;
    if (copied < 0) return failed("copy " + from + " to " + to, errno);
    if (copied == 0) {
      return Error{ErrorCode::kCorrupt, from + " ends " + std::to_string(left) +
                                            " bytes before the " + std::to_string(bytes) +
                                            " that it should have"};
    }
    left -= static_cast<std::uint64_t>(copied);
  }
  if (::fsync(target.get()) != 0) return failed("sync " + to, errno);
  return {};
}

std::string parent_of(const std::string& path) {
  return fs::absolute(path).lexically_normal().parent_path().string();
}

/// Without slashes at the end, so that something can be appended to it.
std::string as_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

/// Whether a folder, which need not be there yet, is inside another.
bool is_inside(const std::string& folder, const std::string& other) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(fs::absolute(folder, error), error);
  const fs::path outer = fs::canonical(other, error);
  if (error) return false;  // What is wrong with it is said by whoever uses it.
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

std::string list_of(const BackupList& info) {
  std::ostringstream out;
  out << kFirstLine << "\ncreated_ms " << info.created_ms << "\ngroup " << info.group << '\n';
  for (const BackupFile& file : info.files)
    out << "file " << file.bytes << ' ' << file.name << '\n';
  out << kLastLine << '\n';
  return out.str();
}

template <class Number>
bool take_number(std::string_view& line, Number& number) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
  if (error != std::errc()) return false;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  return true;
}

bool take_word(std::string_view& line, std::string_view word) {
  if (!line.starts_with(word)) return false;
  line.remove_prefix(word.size());
  return true;
}

/// False: this is not a line of a list.
bool take_line(std::string_view line, BackupList& info) {
  if (take_word(line, "created_ms ")) return take_number(line, info.created_ms) && line.empty();
  if (take_word(line, "group ")) return take_number(line, info.group) && line.empty();
  BackupFile file;
  if (!take_word(line, "file ") || !take_number(line, file.bytes) || !take_word(line, " ")) {
    return false;
  }
  // A name, and nothing that leads out of the folder.
  if (line.empty() || line.find('/') != std::string_view::npos || line == "." || line == "..") {
    return false;
  }
  file.name = std::string(line);
  info.files.push_back(std::move(file));
  return true;
}

}  // namespace

BackupWriter::BackupWriter(BackupWriter&& other) noexcept
    : folder_(std::move(other.folder_)),
      partial_(std::exchange(other.partial_, {})),
      lock_(std::exchange(other.lock_, -1)),
      stop_(std::move(other.stop_)),
      info_(std::move(other.info_)) {}

BackupWriter::~BackupWriter() {
  std::error_code ignored;
  if (!partial_.empty()) fs::remove_all(partial_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

Result<BackupWriter> BackupWriter::create(const std::string& data, const std::string& folder,
                                          std::stop_token stop) {
  BackupWriter writer;
  writer.folder_ = as_name(folder);
  writer.stop_ = std::move(stop);
  writer.info_.created_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                                SystemCalendar().now().time_since_epoch())
                                .count();
  std::error_code error;
  if (fs::exists(fs::symlink_status(writer.folder_, error))) {
    return Error{ErrorCode::kAlreadyExists, writer.folder_ + " exists already"};
  }
  if (is_inside(writer.folder_, data)) {
    return Error{ErrorCode::kInvalidArgument,
                 writer.folder_ + " is inside " + data + ", which it is to be a backup of"};
  }
  const std::string partial = writer.folder_ + ".incomplete";
  const bool left_over = ::mkdir(partial.c_str(), 0700) != 0;
  if (left_over && errno != EEXIST) return failed("make " + partial, errno);
  writer.lock_ = ::open(partial.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (writer.lock_ < 0) return failed("open " + partial, errno);
  if (::flock(writer.lock_, LOCK_EX | LOCK_NB) != 0) {
    return Error{ErrorCode::kUnavailable, "another backup " + writer.folder_ + " is being made"};
  }
  writer.partial_ = partial;
  if (left_over) {
    for (const auto& entry : fs::directory_iterator(partial, error)) {
      if (!fs::remove(entry.path(), error)) break;
    }
    if (error) {
      writer.partial_.clear();
      return Error{ErrorCode::kIo, "clear " + partial + ": " + error.message()};
    }
  }
  return writer;
}

Result<void> BackupWriter::add(const std::string& path, const std::string& name,
                               std::uint64_t bytes, bool may_link) {
  const std::string target = partial_ + "/" + name;
  if (!may_link || ::link(path.c_str(), target.c_str()) != 0) {
    if (Result<void> copied = copy_file(path, target, bytes, stop_); !copied) return copied;
  }
  info_.files.push_back({name, bytes});
  return {};
}

Result<void> BackupWriter::add_contents(const std::string& name, const std::string& contents) {
  if (Result<void> written = write_file(partial_ + "/" + name, contents); !written) return written;
  info_.files.push_back({name, contents.size()});
  return {};
}

Result<BackupList> BackupWriter::finish(std::uint64_t group) {
  info_.group = group;
  if (Result<void> synced = sync_folder(partial_); !synced) return synced.error();
  const std::string list = partial_ + "/" + kBackupFile;
  if (Result<void> written = write_file(list, list_of(info_)); !written) return written.error();
  if (Result<void> synced = sync_folder(partial_); !synced) return synced.error();
  if (::renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, folder_.c_str(), RENAME_NOREPLACE) != 0) {
    return failed("rename " + partial_ + " to " + folder_, errno);
  }
  partial_.clear();
  if (Result<void> synced = sync_folder(parent_of(folder_)); !synced) return synced.error();
  return info_;
}

Result<BackupList> read_backup(const std::string& folder) {
  const std::string path = as_name(folder) + "/" + kBackupFile;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return failed(folder + " is no backup, or one that was not finished: " + path, errno);
  }
  BackupList info;
  std::string line;
  const auto malformed = [&] {
    return Error{ErrorCode::kCorrupt, path + " is malformed at '" + line + "'"};
  };
  std::getline(in, line);
  if (line != kFirstLine) return malformed();
  bool ended = false;
  while (!ended && std::getline(in, line)) {
    ended = line == kLastLine;
    if (!ended && !take_line(line, info)) return malformed();
  }
  if (!ended || std::getline(in, line)) return malformed();
  for (const BackupFile& file : info.files) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(as_name(folder) + "/" + file.name, error);
    if (error) {
      return Error{ErrorCode::kCorrupt, file.name + " of the backup: " + error.message()};
    }
    if (bytes != file.bytes) {
      return Error{ErrorCode::kCorrupt, file.name + " of the backup has " + std::to_string(bytes) +
                                            " bytes, not " + std::to_string(file.bytes)};
    }
  }
  return info;
}

Result<BackupList> back_up_folder(const std::string& from, const std::string& to) {
  const Result<FolderReadLock> lock = FolderReadLock::take(from);
  if (!lock) return lock.error();
  std::error_code error;
  for (const char* mark : {kBackupFile, kRestoringFile}) {
    if (!fs::exists(from + "/" + mark, error)) continue;
    return Error{ErrorCode::kInvalidArgument,
                 from + " has a file " + mark + ": it is no data folder"};
  }
  if (!fs::exists(from + "/CURRENT", error)) {
    return Error{ErrorCode::kNotFound, "there is no database in folder " + from};
  }
  Result<BackupWriter> writer = BackupWriter::create(from, to, {});
  if (!writer) return std::move(writer).error();
  fs::directory_iterator files(from, error);
  for (; !error && files != fs::directory_iterator(); files.increment(error)) {
    const fs::path& path = files->path();
    const std::string name = path.filename().string();
    if (!files->is_regular_file(error) || name == "IN-USE" || name == "LOCK") continue;
    const std::uintmax_t bytes = fs::file_size(path, error);
    if (error) break;
    Result<void> added = writer->add(path.string(), name, bytes, name.ends_with(".sst"));
    if (!added) return added.error();
  }
  if (error) return Error{ErrorCode::kIo, "read folder " + from + ": " + error.message()};
  const std::optional<AcknowledgedMark::Value> mark = AcknowledgedMark::read_only(from);
  return writer->finish(mark ? mark->group : 0);
}

namespace {

/// Removes what a restore that failed has made.
class RestoreUndo {
 public:
  RestoreUndo(std::string folder, bool made) : folder_(std::move(folder)), made_(made) {}
  ~RestoreUndo() {
    if (kept_) return;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
      if (entry.path().filename() != kRestoringFile) fs::remove(entry.path(), ignored);
    }
    fs::remove(folder_ + "/" + kRestoringFile, ignored);
    if (made_) fs::remove(folder_, ignored);
  }
  RestoreUndo(const RestoreUndo&) = delete;
  RestoreUndo& operator=(const RestoreUndo&) = delete;
  void keep() noexcept { kept_ = true; }

 private:
  const std::string folder_;
  const bool made_;
  bool kept_ = false;
};

}  // namespace

Result<BackupList> restore_backup(const std::string& from, const std::string& to) {
  Result<BackupList> backup = read_backup(from);
  if (!backup) return backup;
  const std::string target = as_name(to);
  const bool made = ::mkdir(target.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) return failed("make folder " + target, errno);
  std::error_code error;
  if (!made && !fs::is_empty(target, error)) {
    if (error) return Error{ErrorCode::kIo, "folder " + target + ": " + error.message()};
    const bool begun = fs::exists(target + "/" + kRestoringFile, error);
    return Error{ErrorCode::kAlreadyExists,
                 "folder " + target +
                     (begun ? " is what an interrupted restore left: remove it first"
                            : " is not empty: a backup is restored into an empty folder")};
  }
  RestoreUndo undo(target, made);
  const std::string mark = target + "/" + kRestoringFile;
  if (Result<void> written = write_file(mark, ""); !written) return written.error();
  if (Result<void> synced = sync_folder(target); !synced) return synced.error();
  for (const BackupFile& file : backup->files) {
    Result<void> copied =
        copy_file(as_name(from) + "/" + file.name, target + "/" + file.name, file.bytes, {});
    if (!copied) return copied.error();
  }
  if (Result<void> passed = pass_ids(target, kRestoreIdGap); !passed) return passed.error();
  if (Result<void> synced = sync_folder(target); !synced) return synced.error();
  if (::unlink(mark.c_str()) != 0) return failed("remove " + mark, errno);
  undo.keep();
  if (Result<void> synced = sync_folder(target); !synced) return synced.error();
  if (Result<void> synced = sync_folder(parent_of(target)); !synced) return synced.error();
  return backup;
}

}  // namespace carillon::store
