// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// For tests of ClientSession: partitions that write down what they are asked and answer when told.

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/server/client_session.h"

namespace carillon::server {

/// What was asked, as text: "p0 #1 put t pri=0 delay=0 ttr=60 [x]"; #n is the slot.
class RecordedPartitions final : public Partitions {
 public:
  explicit RecordedPartitions(std::size_t count = 1) : count_(count) {}

  [[nodiscard]] std::size_t count() const noexcept override { return count_; }
  void open_session(broker::SessionId) override { asked_.push_back("open"); }
  void close_session(broker::SessionId) override { asked_.push_back("close"); }
  void end_waiting(std::size_t partition, broker::SessionId) override {
    asked_.push_back("p" + std::to_string(partition) + " end-waiting");
  }
  void submit(std::size_t partition, broker::Command command) override {
    asked_.push_back("p" + std::to_string(partition) + " #" + std::to_string(command.ticket.slot) +
                     " " + text_of(command));
  }
  [[nodiscard]] bool may_wait(broker::SessionId) const override { return !decided_at_once; }

  /// Reserves are decided when they are submitted, and only their replies are missing.
  bool decided_at_once = false;

  /// What was asked since the last call.
  std::vector<std::string> take() { return std::exchange(asked_, {}); }

 private:
  static std::string text_of(const broker::Command& command) {
    using broker::Verb;
    const std::string tube(command.tube);
    const std::string id = std::to_string(command.id);
    const auto seconds = [](Span span) {
      return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(span).count());
    };
    switch (command.verb) {
      case Verb::kPut:
        return "put " + tube + " pri=" + std::to_string(command.priority) +
               " delay=" + seconds(command.delay) + " ttr=" + seconds(command.ttr) + " [" +
               std::string(command.body.view()) + "]";
      case Verb::kReserve:
        return (command.tubes_in_turn ? "reserve in turn" : "reserve") +
               (command.timeout ? " " + seconds(*command.timeout) : std::string());
      case Verb::kReserveJob: return "reserve-job " + id;
      case Verb::kDelete: return "delete " + id;
      case Verb::kRelease:
        return "release " + id + " pri=" + std::to_string(command.priority) +
               " delay=" + seconds(command.delay);
      case Verb::kBury: return "bury " + id + " pri=" + std::to_string(command.priority);
      case Verb::kTouch: return "touch " + id;
      case Verb::kKick: return "kick " + tube + " " + std::to_string(command.count);
      case Verb::kKickJob: return "kick-job " + id;
      case Verb::kPeek: return "peek " + id;
      case Verb::kPeekReady: return "peek-ready " + tube;
      case Verb::kPeekDelayed: return "peek-delayed " + tube;
      case Verb::kPeekBuried: return "peek-buried " + tube;
      case Verb::kUse: return "use " + tube;
      case Verb::kWatch: return "watch " + tube;
      case Verb::kIgnore: return "ignore " + tube;
      case Verb::kPauseTube: return "pause-tube " + tube + " " + seconds(command.delay);
      case Verb::kStatsJob: return "stats-job " + id;
      case Verb::kStatsTube: return "stats-tube " + tube;
      case Verb::kStats: return "stats";
      case Verb::kListTubes: return "list-tubes";
      case Verb::kCancelReserve: return "cancel-reserve";
      case Verb::kUnreserve: return "unreserve " + id;
      default: break;  // A client of beanstalk asks for nothing else.
    }
    return "?";
  }

  std::size_t count_;
  std::vector<std::string> asked_;
};

/// A session with its surroundings. What opening it asked for has been taken.
class SessionUnderTest {
 public:
  explicit SessionUnderTest(std::size_t partitions = 1, SessionLimits limits = {})
      : partitions_(partitions), context_{partitions_} {
    context_.limits = limits;
    context_.describe_server = [](protocol::beanstalk::ServerStats& stats) { stats.pid = 4711; };
    session_ = std::make_unique<ClientSession>(7, context_, output_);
    partitions_.take();
  }

  ClientSession& operator*() { return *session_; }
  ClientSession* operator->() { return session_.get(); }
  [[nodiscard]] SessionContext& context() { return context_; }
  [[nodiscard]] OutputBuffer& output() { return output_; }
  [[nodiscard]] RecordedPartitions& partitions() { return partitions_; }

  /// Feeds bytes and returns what that asks of the partitions.
  std::vector<std::string> receive(std::string_view bytes) {
    session_->receive(bytes);
    return partitions_.take();
  }
  std::vector<std::string> asked() { return partitions_.take(); }
  void close() { session_.reset(); }
  /// As if the client had come only now.
  void restart() {
    session_.reset();
    session_ = std::make_unique<ClientSession>(7, context_, output_);
    partitions_.take();
  }

  void reply(std::uint64_t slot, broker::Answer answer, std::size_t partition = 0) {
    broker::Reply reply;
    reply.answer = answer;
    session_->on_reply(partition, slot, std::move(reply));
  }
  void reply_job(std::uint64_t slot, broker::Answer answer, broker::JobId id,
                 std::string_view body = {}, std::size_t partition = 0) {
    broker::Reply reply;
    reply.answer = answer;
    reply.id = id;
    if (!body.empty()) reply.body = broker::Body(body);
    session_->on_reply(partition, slot, std::move(reply));
  }
  template <class Detail>
  void reply_detail(std::uint64_t slot, Detail detail, std::size_t partition = 0) {
    broker::Reply reply;
    reply.answer = broker::Answer::kStats;
    using Details = decltype(reply.detail)::element_type;
    reply.detail = std::make_unique<Details>(std::move(detail));
    session_->on_reply(partition, slot, std::move(reply));
  }

  /// What the client would have read since the last call.
  std::string sent() {
    std::string bytes;
    iovec vectors[64];
    const std::size_t count = output_.describe(vectors);
    for (std::size_t i = 0; i < count; ++i) {
      bytes.append(static_cast<const char*>(vectors[i].iov_base), vectors[i].iov_len);
    }
    output_.consume(bytes.size());
    return bytes;
  }

 private:
  RecordedPartitions partitions_;
  SessionContext context_;
  OutputBuffer output_;
  std::unique_ptr<ClientSession> session_;
};

}  // namespace carillon::server
