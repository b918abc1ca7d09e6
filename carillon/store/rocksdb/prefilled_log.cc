// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/prefilled_log.h"

#include <algorithm>
#include <string>
#include <utility>

namespace carillon::store {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

// Of RocksDB's log format. Zeros end at the end of a block, else the reader would take a remainder
// that is shorter than a record's header for a torn one.
constexpr std::uint64_t kBlock = 32'768;
constexpr std::uint64_t kFill = 8 * kBlock;
// From here on a sync has enough to write that the journal's part does not matter.
constexpr std::uint64_t kLargeSync = 16'384;
// Under load the question is asked again after this much.
constexpr std::uint64_t kAskAgain = std::uint64_t{1} << 20;

}  // namespace

PrefilledLog::PrefilledLog(std::unique_ptr<rocksdb::FSWritableFile> file)
    : FSWritableFileWrapper(file.get()), file_(std::move(file)) {}

IOStatus PrefilledLog::Append(const Slice& data, const IOOptions& options, IODebugContext* debug) {
  if (end_ + data.size() > decide_at_) fill_ahead(data.size(), options, debug);
  IOStatus status = target()->PositionedAppend(data, end_, options, debug);
  if (status.ok()) end_ += data.size();
  return status;
}

IOStatus PrefilledLog::Append(const Slice& data, const IOOptions& options,
                              const rocksdb::DataVerificationInfo& info, IODebugContext* debug) {
  if (end_ + data.size() > decide_at_) fill_ahead(data.size(), options, debug);
  IOStatus status = target()->PositionedAppend(data, end_, options, info, debug);
  if (status.ok()) end_ += data.size();
  return status;
}

void PrefilledLog::fill_ahead(std::size_t bytes, const IOOptions& options, IODebugContext* debug) {
  static const std::string kZeros(kFill + kBlock, '\0');
  const std::uint64_t syncs = syncs_.exchange(0, std::memory_order_relaxed);
  const std::uint64_t written = end_ - std::exchange(decided_end_, end_);
  decide_at_ = end_ + bytes + kAskAgain;
  // The first time nothing is known; a new log is rare enough.
  if (end_ != 0 && written >= syncs * kLargeSync) return;
  const std::uint64_t from = std::max(end_ + bytes, filled_);
  const std::uint64_t until = (from + kFill + kBlock - 1) / kBlock * kBlock;
  if (target()->PositionedAppend(Slice(kZeros.data(), until - from), from, options, debug).ok()) {
    filled_ = until;
    decide_at_ = until;
  }
}

IOStatus PrefilledLog::Sync(const IOOptions& options, IODebugContext* debug) {
  syncs_.fetch_add(1, std::memory_order_relaxed);
  return target()->Sync(options, debug);
}

IOStatus PrefilledLog::Fsync(const IOOptions& options, IODebugContext* debug) {
  syncs_.fetch_add(1, std::memory_order_relaxed);
  return target()->Fsync(options, debug);
}

IOStatus PrefilledLog::Truncate(std::uint64_t size, const IOOptions& options,
                                IODebugContext* debug) {
  end_ = size;
  filled_ = std::min(filled_, size);
  return target()->Truncate(size, options, debug);
}

IOStatus PrefilledLog::Close(const IOOptions& options, IODebugContext* debug) {
  // Also when nothing was filled: the file below takes the end of its last write for its size.
  IOStatus cut = target()->Truncate(end_, options, debug);
  IOStatus closed = target()->Close(options, debug);
  return cut.ok() ? closed : cut;
}

std::uint64_t PrefilledLog::GetFileSize(const IOOptions& /*options*/, IODebugContext* /*debug*/) {
  return end_;
}

}  // namespace carillon::store
