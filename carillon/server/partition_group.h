// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The partitions of a server as its event loop sees them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "carillon/base/clock.h"
#include "carillon/broker/store.h"
#include "carillon/server/partition_host.h"
#include "carillon/server/partitions.h"

namespace carillon::server {

/// Threads: as Partitions: the network thread only.
class PartitionGroup : public Partitions {
 public:
  /// All called on the network thread.
  struct Events {
    /// May come from inside submit(), close_session(), end_waiting() and end_turn(). Must not call
    /// into the group if that has one partition (which checks it), but to ask how things stand:
    /// count(), may_wait(), accepts_work(), stopped(), totals().
    std::function<void(std::size_t partition, broker::Ticket, broker::Reply)> on_reply;
    /// end_turn() is to be called soon.
    std::function<void()> request_turn;
    /// Inside end_turn(), which is going to take as long as a sync: what has been answered can be
    /// sent now. As on_reply, whatever the group.
    std::function<void()> send_answers;
  };

  /// The end of an event-loop turn: due things are handled, and what was collected is committed.
  virtual void end_turn() = 0;
  /// Whether sessions should go on reading commands. When that becomes true again, a turn is
  /// requested.
  [[nodiscard]] virtual bool accepts_work() const noexcept = 0;
  /// Whether schedules put no instances: in drain mode (puts are refused by whoever takes them),
  /// and by the option `hold`.
  virtual void hold_schedules(bool held) = 0;
  /// Writes what a clean stop leaves behind. Nothing may be submitted afterwards.
  virtual void begin_stop() = 0;
  /// Whether all of that is durable (or cannot be). When it becomes true, a turn is requested.
  [[nodiscard]] virtual bool stopped() const noexcept = 0;

  struct Totals {
    std::uint64_t recovered_jobs = 0;      ///< Near: read into memory at the start ...
    std::uint64_t recovered_far_jobs = 0;  ///< ... and far: on disk only.
    std::uint64_t mutations = 0;
    std::uint64_t commit_failures = 0;
    std::uint64_t recoveries = 0;  ///< The start included.
    bool accepts_puts = true;      ///< False: less than min-free-space is left.
  };
  /// Sums over the partitions; may lag by a turn.
  [[nodiscard]] virtual Totals totals() const noexcept = 0;
};

/// What a group is made of. The clocks must outlive it.
struct PartitionSetup {
  /// Of every partition; ids and the default tube are set for each.
  PartitionHostOptions host;
  /// The store of each partition.
  std::vector<std::unique_ptr<broker::Store>> stores;
  const Clock& clock;
  const Calendar& calendar;
  std::string boot_id;
  /// Called from any thread.
  Log log;
};

/// The options of partition `index` of `count`: its ids and whether it owns the default tube.
[[nodiscard]] PartitionHostOptions host_options_of(const PartitionHostOptions& all,
                                                   std::size_t index, std::size_t count);

}  // namespace carillon::server
