// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Several partitions, each with a thread and an event loop of its own.
///
///     network thread                            thread of partition p
///     ──────────────                            ─────────────────────
///     submit: append to the outbox of p
///     end_turn: ───── one post a turn ────────► all messages, then turn()
///     on_reply, then a turn ◄─── one post ───── all replies of that turn
///
/// So under load a hand-over costs one post for a whole turn's commands, not one each.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/server/partition_group.h"

namespace carillon::server {

/// Threads:  methods as PartitionGroup.
/// Lifetime: the loop must outlive it; the destructor ends the threads, and the loop must run
///           nothing afterwards.
/// Limits:   what is on the way between the threads is bounded by the sessions' own limits.
class PartitionThreads final : public PartitionGroup {
 public:
  /// One partition a store.
  PartitionThreads(boost::asio::io_context& loop, PartitionSetup setup, Events events);
  ~PartitionThreads() override;

  /// Starts the threads; each reads its store. Blocking.
  Result<void> open();

  [[nodiscard]] std::size_t count() const noexcept override { return workers_.size(); }
  void open_session(broker::SessionId session) override;
  void close_session(broker::SessionId session) override;
  void end_waiting(std::size_t partition, broker::SessionId session) override;
  void submit(std::size_t partition, broker::Command command) override;
  /// Always: the partitions have not even seen it yet.
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return true; }

  void end_turn() override;
  [[nodiscard]] bool accepts_work() const noexcept override;
  void hold_schedules(bool held) override;
  void begin_stop() override;
  [[nodiscard]] bool stopped() const noexcept override;
  [[nodiscard]] Totals totals() const noexcept override;

 private:
  class Worker;

  boost::asio::io_context& loop_;
  Events events_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace carillon::server
