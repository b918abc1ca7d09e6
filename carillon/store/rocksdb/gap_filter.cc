// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/gap_filter.h"

#include "carillon/store/rocksdb/record_codec.h"

namespace carillon::store {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

// Looks for the group's number among the entries of a write.
class GroupFinder final : public rocksdb::WriteBatch::Handler {
 public:
  Status PutCF(std::uint32_t family, const Slice& key, const Slice& value) override {
    if (family == 0 && key == Slice(group_key().view())) {
      if (const Result<std::uint64_t> number = decode_group(value.ToStringView())) group = *number;
    }
    return Status::OK();
  }
  Status DeleteCF(std::uint32_t /*family*/, const Slice& /*key*/) override { return Status::OK(); }
  Status SingleDeleteCF(std::uint32_t /*family*/, const Slice& /*key*/) override {
    return Status::OK();
  }

  std::uint64_t group = 0;
};

}  // namespace

std::uint64_t group_of(const rocksdb::WriteBatch& batch) {
  GroupFinder finder;
  // What it cannot make out, replay will complain of.
  return batch.Iterate(&finder).ok() ? finder.group : 0;
}

rocksdb::WalFilter::WalProcessingOption GapFilter::LogRecordFound(
    unsigned long long /*log_number*/, const std::string& /*log_name*/,
    const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* /*new_batch*/, bool* /*batch_changed*/) {
  const std::uint64_t group = group_of(batch);
  if (group == 0) return WalProcessingOption::kContinueProcessing;
  if (last_ != 0 && group > last_ + 1) {
    gap_after_ = last_;
    return WalProcessingOption::kStopReplay;
  }
  last_ = group;
  return WalProcessingOption::kContinueProcessing;
}

}  // namespace carillon::store
