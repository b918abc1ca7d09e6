// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The session that holds the reservations of all HTTP clients: a worker may reserve a job on one
/// connection and acknowledge it on another. What tells workers apart is the receipt.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"
#include "carillon/server/partitions.h"

namespace carillon::server {

/// Threads:   the network thread.
/// Lifetime:  the partitions must outlive it. Its reservations go back to ready when it is
///            destroyed.
/// Callbacks: they may do anything.
class HttpDesk {
 public:
  using OnReply = std::function<void(std::size_t partition, broker::Reply)>;

  HttpDesk(broker::SessionId id, Partitions& partitions) : id_(id), partitions_(partitions) {
    partitions_.open_session(id_);
  }
  ~HttpDesk() { partitions_.close_session(id_); }
  HttpDesk(const HttpDesk&) = delete;
  HttpDesk& operator=(const HttpDesk&) = delete;

  [[nodiscard]] broker::SessionId id() const noexcept { return id_; }

  void ask(std::size_t partition, broker::Command command, OnReply on_reply) {
    asked_.emplace(++slot_, std::move(on_reply));
    command.ticket = {id_, slot_};
    partitions_.submit(partition, std::move(command));
  }
  /// Asks every partition; the replies come together, in their order.
  void ask_all(const broker::Command& command,
               std::function<void(std::vector<broker::Reply>)> on_replies);
  /// The reservation that `from` has of the job is the desk's from now on.
  void take_over(std::size_t partition, broker::JobId id, broker::SessionId from) {
    broker::Command command;
    command.verb = broker::Verb::kHandOver;
    command.ticket = {from, 0};  // Nobody waits for the reply.
    command.id = id;
    command.to = id_;
    partitions_.submit(partition, std::move(command));
  }

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply) {
    const auto found = asked_.find(slot);
    if (found == asked_.end()) return;
    const OnReply callback = std::move(found->second);
    asked_.erase(found);
    callback(partition, std::move(reply));
  }

 private:
  const broker::SessionId id_;
  Partitions& partitions_;
  std::uint64_t slot_ = 0;
  std::unordered_map<std::uint64_t, OnReply> asked_;  // By slot.
};

}  // namespace carillon::server
