// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One partition in the network thread: the default, and the fastest way from a socket to a job.

#include <boost/asio/io_context.hpp>

#include "carillon/base/result.h"
#include "carillon/server/partition_group.h"
#include "carillon/server/wake_timer.h"

namespace carillon::server {

/// Lifetime: the loop must outlive it and run nothing of it after its destruction has begun.
/// Errors:   a call that changes something, made while another is under way (from inside
///           Events::on_reply or send_answers), stops the program: the broker in the middle of a
///           command would go on with what the inner call has moved or freed.
class LocalPartition final : public PartitionGroup {
 public:
  /// Pre: `setup` has one store.
  LocalPartition(boost::asio::io_context& loop, PartitionSetup setup, Events events);

  /// Reads the store. Blocking.
  Result<void> open() { return host_.open(); }

  [[nodiscard]] std::size_t count() const noexcept override { return 1; }
  void open_session(broker::SessionId session) override;
  void close_session(broker::SessionId session) override;
  void end_waiting(std::size_t partition, broker::SessionId session) override;
  void submit(std::size_t partition, broker::Command command) override;
  [[nodiscard]] bool may_wait(broker::SessionId session) const override {
    return host_.blocked(session);
  }

  void end_turn() override;
  [[nodiscard]] bool accepts_work() const noexcept override { return host_.accepts_work(); }
  void hold_schedules(bool held) override { host_.hold_schedules(held); }
  void begin_stop() override;
  [[nodiscard]] bool stopped() const noexcept override { return host_.idle(); }
  [[nodiscard]] Totals totals() const noexcept override;

 private:
  class Call;

  Events events_;
  const char* under_way_ = nullptr;  // The call that is; null: none.
  WakeTimer wake_;
  PartitionHost host_;
};

}  // namespace carillon::server
