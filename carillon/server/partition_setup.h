// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// From options to running partitions: opens the store and starts what hosts it.

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string_view>

#include "carillon/base/clock.h"
#include "carillon/base/result.h"
#include "carillon/server/options.h"
#include "carillon/server/partition_group.h"

namespace carillon::store {
class RocksDatabase;
}  // namespace carillon::store

namespace carillon::server {

/// The partitions and the database under them, in the order in which they have to die.
struct PartitionsWithStore {
  PartitionsWithStore();
  PartitionsWithStore(PartitionsWithStore&&) noexcept;
  PartitionsWithStore& operator=(PartitionsWithStore&&) noexcept;
  ~PartitionsWithStore();

  std::unique_ptr<store::RocksDatabase> database;  ///< Null: in memory.
  std::unique_ptr<PartitionGroup> group;
};

/// Blocking: reads what the store holds. The loop and the clocks must outlive the result.
[[nodiscard]] Result<PartitionsWithStore> open_partitions(const ServerOptions& options,
                                                          boost::asio::io_context& loop,
                                                          const Clock& clock,
                                                          const Calendar& calendar,
                                                          PartitionGroup::Events events, Log log);

}  // namespace carillon::server
