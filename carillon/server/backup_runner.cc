// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/backup_runner.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::server {

BackupRunner::BackupRunner(boost::asio::io_context& loop, store::RocksDatabase* database,
                           std::string folder, Log log)
    : loop_(loop), database_(database), folder_(std::move(folder)), log_(std::move(log)) {}

BackupRunner::~BackupRunner() = default;  // The thread is asked to stop, and joined.

bool BackupRunner::is_name(std::string_view name) noexcept {
  constexpr std::size_t kMost = 100;
  static constexpr std::string_view kOthers = "._-";
  if (name.empty() || name.size() > kMost || name.front() == '.' || name.ends_with(".incomplete")) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

Result<void> BackupRunner::start(std::string_view name, BackupDone done) {
  if (database_ == nullptr) {
    return Error{ErrorCode::kNotFound, "the jobs are in memory only: there is nothing to back up"};
  }
  if (folder_.empty()) {
    return Error{ErrorCode::kNotFound, "no backup-folder is configured"};
  }
  const std::string own_name =
      name.empty() ? fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr)))
                   : std::string(name);
  if (!is_name(own_name)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "a backup's name is 1 to 100 of A-Z a-z 0-9 . _ - without a dot first, and does not "
        "end in .incomplete"};
  }
  if (done_) return Error{ErrorCode::kLimitExceeded, "a backup is being made already"};
  done_ = std::move(done);
  if (thread_.joinable()) thread_.join();  // It has posted its result, and ended.
  thread_ = std::jthread(
      [this, folder = folder_, path = folder_ + "/" + own_name](const std::stop_token& stop) {
        Result<MadeBackup> result = Error{ErrorCode::kIo, ""};
        std::error_code error;
        std::filesystem::create_directory(folder, error);
        Result<store::BackupList> made = database_->back_up(path, stop);
        if (made) {
          result = MadeBackup{path, made->files.size(), made->bytes()};
        } else {
          result = std::move(made).error();
        }
        if (stop.stop_requested()) return;
        auto shared = std::make_shared<Result<MadeBackup>>(std::move(result));
        boost::asio::post(loop_, [this, shared] { finish(std::move(*shared)); });
      });
  return {};
}

void BackupRunner::finish(Result<MadeBackup> result) {
  if (result) {
    log_(LogLevel::kInfo, "backup",
         fmt::format("backup {}: {} files, {} bytes", result->folder, result->files, result->bytes),
         {{"backup", result->folder}, {"files", result->files}, {"bytes", result->bytes}});
  } else {
    log_(LogLevel::kError, "backup_failed", "backup: " + result.error().message);
  }
  std::exchange(done_, nullptr)(std::move(result));
}

}  // namespace carillon::server
