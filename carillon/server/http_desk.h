// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The session that holds the reservations of all HTTP clients: a worker may reserve a job on one
/// connection and acknowledge it on another. What tells workers apart is the receipt.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"
#include "carillon/server/partitions.h"

namespace carillon::server {

using OnReplies = std::function<void(std::vector<broker::Reply>)>;

/// What takes the reply of each of `count` partitions, and calls `done` with all of them, in their
/// order, when it has the last.
[[nodiscard]] std::function<void(std::size_t partition, broker::Reply)> gather_replies(
    std::size_t count, OnReplies done);

/// Threads:   the network thread.
/// Lifetime:  the partitions must outlive it. Its reservations go back to ready when it is
///            destroyed.
/// Callbacks: they may do anything.
class HttpDesk {
 public:
  using OnReply = std::function<void(std::size_t partition, broker::Reply)>;
  using Deliver = std::function<void(std::size_t partition, broker::Ticket, broker::Reply)>;

  /// `deliver` gets the replies that somebody else has a ticket for.
  HttpDesk(broker::SessionId id, Partitions& partitions, Deliver deliver = {})
      : id_(id), partitions_(partitions), deliver_(std::move(deliver)) {
    partitions_.open_session(id_);
  }
  ~HttpDesk() { partitions_.close_session(id_); }
  HttpDesk(const HttpDesk&) = delete;
  HttpDesk& operator=(const HttpDesk&) = delete;

  [[nodiscard]] broker::SessionId id() const noexcept { return id_; }

  void ask(std::size_t partition, broker::Command command, OnReply on_reply) {
    submit(partition, std::move(command), std::move(on_reply));
  }
  /// The reply is delivered to whom `reply_to` names.
  void ask(std::size_t partition, broker::Command command, broker::Ticket reply_to) {
    submit(partition, std::move(command), reply_to);
  }
  /// Asks every partition; the replies come together, in their order.
  void ask_all(const broker::Command& command, OnReplies on_replies);
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
    const ReplyTo reply_to = std::move(found->second);
    asked_.erase(found);
    if (const auto* ticket = std::get_if<broker::Ticket>(&reply_to)) {
      deliver_(partition, *ticket, std::move(reply));
    } else {
      std::get<OnReply>(reply_to)(partition, std::move(reply));
    }
  }

 private:
  using ReplyTo = std::variant<broker::Ticket, OnReply>;

  // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved.
  void submit(std::size_t partition, broker::Command command, ReplyTo reply_to) {
    asked_.emplace(++slot_, std::move(reply_to));
    command.ticket = {id_, slot_};
    partitions_.submit(partition, std::move(command));
  }

  const broker::SessionId id_;
  Partitions& partitions_;
  const Deliver deliver_;
  std::uint64_t slot_ = 0;
  absl::flat_hash_map<std::uint64_t, ReplyTo> asked_;  // By slot.
};

}  // namespace carillon::server
