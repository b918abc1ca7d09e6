// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/partition_setup.h"

#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "carillon/broker/timeline.h"
#include "carillon/calendar/recurrence.h"
#include "carillon/server/local_partition.h"
#include "carillon/server/partition_threads.h"
#include "carillon/store/memory/volatile_store.h"
#include "carillon/store/rocksdb/rocks_store.h"

namespace carillon::server {
namespace {

LogLevel level_of(store::LogLevel level) noexcept {
  switch (level) {
    case store::LogLevel::kInfo: return LogLevel::kInfo;
    case store::LogLevel::kWarning: return LogLevel::kWarning;
    case store::LogLevel::kError: break;
  }
  return LogLevel::kError;
}

Result<std::unique_ptr<store::RocksDatabase>> open_database(const ServerOptions& options,
                                                            const Log& log) {
  const std::filesystem::path parent =
      std::filesystem::absolute(options.data).lexically_normal().parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(parent, error)) {
    return Error{ErrorCode::kNotFound,
                 fmt::format("data: the folder {} does not exist", parent.string())};
  }
  store::RocksOptions rocks;
  rocks.folder = options.data;
  rocks.partition_count = static_cast<std::uint32_t>(options.partitions);
  rocks.memtable_bytes = options.memtable_size;
  rocks.block_cache_bytes = options.block_cache_size;
  rocks.max_log_bytes = options.max_log_size;
  rocks.min_free_bytes = options.min_free_space;
  rocks.accept_loss = options.accept_loss;
  rocks.log = [log = log.of("store")](store::LogLevel level, std::string_view message) {
    log(level_of(level), message);
  };
  return store::RocksDatabase::open(std::move(rocks));  // Its errors name the folder.
}

PartitionHostOptions host_options(const ServerOptions& options) {
  PartitionHostOptions host;
  host.broker.horizon = options.horizon;
  host.broker.body_budget_bytes = options.body_budget;
  host.broker.max_jobs_in_memory = options.max_jobs_in_memory;
  host.broker.max_tubes = options.max_tubes;
  host.broker.random_seed = std::random_device()();
  host.broker.next_period = calendar::next_of_spec;
  host.max_batch_mutations = options.max_batch_mutations;
  host.max_batch_bytes = options.max_batch_size;
  host.holds_schedules = options.hold;
  return host;
}

template <class Group>
Result<std::unique_ptr<PartitionGroup>> open_group(boost::asio::io_context& loop,
                                                   PartitionSetup setup,
                                                   PartitionGroup::Events events) {
  auto group = std::make_unique<Group>(loop, std::move(setup), std::move(events));
  if (Result<void> opened = group->open(); !opened) return std::move(opened).error();
  return std::unique_ptr<PartitionGroup>(std::move(group));
}

}  // namespace

PartitionsWithStore::PartitionsWithStore() = default;
PartitionsWithStore::PartitionsWithStore(PartitionsWithStore&&) noexcept = default;
PartitionsWithStore& PartitionsWithStore::operator=(PartitionsWithStore&& other) noexcept {
  group = std::move(other.group);
  database = std::move(other.database);
  return *this;
}
PartitionsWithStore::~PartitionsWithStore() = default;

Result<PartitionsWithStore> open_partitions(const ServerOptions& options,
                                            boost::asio::io_context& loop, const Clock& clock,
                                            const Calendar& calendar, PartitionGroup::Events events,
                                            Log log) {
  PartitionsWithStore result;
  PartitionSetup setup{host_options(options), {}, clock, calendar, broker::read_boot_id(),
                       log.of("partition")};
  if (options.memory) {
    for (std::uint64_t i = 0; i < options.partitions; ++i) {
      setup.stores.push_back(std::make_unique<store::VolatileStore>());
    }
  } else {
    Result<std::unique_ptr<store::RocksDatabase>> database = open_database(options, log);
    if (!database) return std::move(database).error();
    result.database = std::move(*database);
    for (std::uint64_t i = 0; i < options.partitions; ++i) {
      setup.stores.push_back(result.database->open_partition(static_cast<std::uint32_t>(i)));
    }
  }
  Result<std::unique_ptr<PartitionGroup>> group =
      options.partitions == 1
          ? open_group<LocalPartition>(loop, std::move(setup), std::move(events))
          : open_group<PartitionThreads>(loop, std::move(setup), std::move(events));
  if (!group) return std::move(group).error();
  result.group = std::move(*group);
  return result;
}

}  // namespace carillon::server
