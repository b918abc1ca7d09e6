// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/rocksdb/rocks_store.h"

#include <string>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/store/rocksdb/commit_pipeline.h"
#include "carillon/store/rocksdb/rocks_engine.h"

namespace carillon::store {
namespace {

constexpr std::uint32_t kMaxPartitions = 1'024;

class RocksStore final : public broker::Store {
 public:
  RocksStore(RocksEngine& engine, CommitPipeline& pipeline, PartitionIndex partition)
      : engine_(engine),
        pipeline_(pipeline),
        partition_(partition),
        lane_(pipeline.open_lane(partition)) {}
  ~RocksStore() override { pipeline_.close_lane(lane_); }

  [[nodiscard]] bool keeps_far_jobs() const noexcept override { return true; }
  [[nodiscard]] bool keeps_bodies() const noexcept override { return true; }
  [[nodiscard]] bool commit_blocks(const broker::Batch& batch) const override {
    return pipeline_.commit_blocks(batch);
  }
  [[nodiscard]] bool accepts_puts() const noexcept override {
    if (engine_.accepts_puts()) return true;
    if (engine_.wants_reclaim()) pipeline_.read(*lane_, ReclaimRequest{});
    return false;
  }

  Result<void> recover(broker::RecoverySink& sink) override {
    return pipeline_.recover(
        *lane_, [this] { return engine_.reopen(); },
        [this, &sink] { return engine_.load(partition_, sink); });
  }
  void commit(std::unique_ptr<broker::Batch> batch, Committed done) override {
    pipeline_.commit(*lane_, std::move(batch), std::move(done));
  }
  void fetch(std::vector<broker::WantedJob> wanted, Fetched done) override {
    pipeline_.read(*lane_, FetchRequest{std::move(wanted), std::move(done)});
  }
  void scan_far(broker::TubeNumber tube, broker::FarCursor from, std::int64_t until_ms,
                std::size_t limit, Scanned done) override {
    pipeline_.read(*lane_, ScanRequest{tube, from, until_ms, limit, std::move(done)});
  }
  void find_key(broker::TubeNumber tube, std::string key, KeyFound done) override {
    pipeline_.read(*lane_, KeyRequest{tube, std::move(key), std::move(done)});
  }

 private:
  RocksEngine& engine_;
  CommitPipeline& pipeline_;
  const PartitionIndex partition_;
  CommitPipeline::Lane* const lane_;
};

}  // namespace

class RocksDatabase::Impl {
 public:
  explicit Impl(const RocksOptions& options)
      : partition_count(options.partition_count), engine(options) {}

  const std::uint32_t partition_count;
  RocksEngine engine;
  std::unique_ptr<CommitPipeline> pipeline;
};

Result<std::unique_ptr<RocksDatabase>> RocksDatabase::open(RocksOptions options) {
  if (options.folder.empty()) {
    return Error{ErrorCode::kInvalidArgument, "folder is empty"};
  }
  if (options.partition_count == 0 || options.partition_count > kMaxPartitions) {
    return Error{ErrorCode::kInvalidArgument,
                 "partitions: " + std::to_string(options.partition_count) +
                     " is out of range (1 to " + std::to_string(kMaxPartitions) + ")"};
  }
  auto impl = std::make_unique<Impl>(options);
  if (Result<void> opened = impl->engine.open(); !opened) return std::move(opened.error());
  CommitPipeline::Options pipeline;
  pipeline.small_mutations = options.small_mutations;
  impl->pipeline = std::make_unique<CommitPipeline>(impl->engine, pipeline);
  return std::unique_ptr<RocksDatabase>(new RocksDatabase(std::move(impl)));
}

RocksDatabase::RocksDatabase(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

RocksDatabase::~RocksDatabase() {
  const bool failed = impl_->pipeline->stats().failed;
  impl_->pipeline.reset();
  impl_->engine.close(!failed);
}

std::unique_ptr<broker::Store> RocksDatabase::open_partition(std::uint32_t index) {
  CARILLON_CHECK(index < impl_->partition_count, "partition ", index, " of ",
                 impl_->partition_count);
  return std::make_unique<RocksStore>(impl_->engine, *impl_->pipeline,
                                      static_cast<PartitionIndex>(index));
}

RocksStats RocksDatabase::stats() const {
  RocksStats stats = impl_->pipeline->stats();
  impl_->pipeline->with_engine([this, &stats] { impl_->engine.add_to(stats); });
  return stats;
}

Result<BackupList> RocksDatabase::back_up(const std::string& folder, std::stop_token stop) {
  Result<BackupList> result = Error{ErrorCode::kUnavailable, "the store is closed"};
  impl_->pipeline->with_engine([&] { result = impl_->engine.back_up(folder, std::move(stop)); });
  return result;
}

Result<void> RocksDatabase::compact() {
  Result<void> result;
  impl_->pipeline->with_engine([this, &result] { result = impl_->engine.compact(); });
  return result;
}

}  // namespace carillon::store
