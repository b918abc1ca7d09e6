// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The jobs of a partition in one column family, by id, for whoever reads a folder as a whole.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <rocksdb/db.h>

#include "carillon/broker/job.h"
#include "carillon/store/rocksdb/record_codec.h"

namespace carillon::store {

/// Goes from job to job. What is no key of a job, and an end that cannot be read, is told to
/// `fault`, with the key or without one, and passed over.
class JobCursor {
 public:
  using Fault = std::function<void(std::string_view key, std::string what)>;

  JobCursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, PartitionIndex partition,
            Fault fault)
      : begin_(partition_begin(partition)),
        end_(partition_end(partition)),
        lower_(begin_.view()),
        upper_(end_.view()),
        fault_(std::move(fault)) {
    rocksdb::ReadOptions read;
    read.iterate_lower_bound = &lower_;
    read.iterate_upper_bound = &upper_;
    read.fill_cache = false;
    read.readahead_size = std::size_t{2} << 20;
    at_.reset(db.NewIterator(read, family));
    at_->SeekToFirst();
    find();
  }
  JobCursor(const JobCursor&) = delete;
  JobCursor& operator=(const JobCursor&) = delete;

  void next() {
    at_->Next();
    find();
  }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  [[nodiscard]] bool is_at(broker::JobId id) const noexcept { return !ended_ && id_ == id; }
  [[nodiscard]] broker::JobId id() const noexcept { return id_; }
  [[nodiscard]] std::string_view key() const { return at_->key().ToStringView(); }
  [[nodiscard]] std::string_view value() const { return at_->value().ToStringView(); }

 private:
  void find() {
    for (; at_->Valid(); at_->Next()) {
      const Result<broker::JobId> id = parse_job_key(key());
      if (id) {
        id_ = *id;
        return;
      }
      fault_(key(), id.error().message);
    }
    ended_ = true;
    if (!at_->status().ok()) {
      fault_({}, "cannot be read to its end: " + at_->status().ToString());
    }
  }

  const Key begin_;
  const Key end_;
  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  const Fault fault_;
  std::unique_ptr<rocksdb::Iterator> at_;
  bool ended_ = false;
  broker::JobId id_ = 0;
};

}  // namespace carillon::store
