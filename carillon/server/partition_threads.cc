// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/partition_threads.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <thread>
#include <utility>

#include "carillon/server/wake_timer.h"

namespace carillon::server {
namespace {

struct Message {
  enum class Kind : std::uint8_t { kOpen, kClose, kEndWaiting, kCommand, kHoldSchedules, kStop };
  Kind kind = Kind::kCommand;
  bool held = false;
  broker::Command command;  // Of the others, only the session in its ticket.
  std::string tube;         // What command.tube refers to.
};

struct Delivery {
  broker::Ticket ticket;
  broker::Reply reply;
};

}  // namespace

/// One partition: the network thread's outbox for it, and its thread with all it owns.
class PartitionThreads::Worker {
 public:
  Worker(PartitionThreads& group, std::size_t index, PartitionHostOptions options,
         std::unique_ptr<broker::Store> store, const PartitionSetup& setup)
      : group_(group),
        index_(index),
        work_(loop_.get_executor()),
        wake_(loop_, [this] { turn(); }),
        host_(options, std::move(store), setup.clock, setup.calendar, setup.boot_id,
              {[this](broker::Ticket ticket, broker::Reply reply) {
                 replies_.push_back({ticket, std::move(reply)});
               },
               [this](std::function<void()> call) {
                 boost::asio::post(loop_, [this, call = std::move(call)] {
                   call();
                   turn();
                 });
               },
               setup.log,
               [this] {
                 if (!replies_.empty()) deliver();
               }}) {}

  ~Worker() {
    work_.reset();
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // For the network thread.

  std::future<Result<void>> start() {
    std::promise<Result<void>> opened;
    std::future<Result<void>> result = opened.get_future();
    thread_ = std::thread([this, opened = std::move(opened)]() mutable {
      Result<void> open = host_.open();
      const bool ok = open.has_value();
      publish();
      opened.set_value(std::move(open));
      if (!ok) return;
      turn();
      loop_.run();
    });
    return result;
  }

  void send(Message message) { outbox_.push_back(std::move(message)); }

  void flush() {
    if (outbox_.empty()) return;
    boost::asio::post(loop_, [this, messages = std::exchange(outbox_, {})]() mutable {
      for (Message& message : messages) handle(message);
      turn();
    });
  }

  [[nodiscard]] bool accepts_work() const noexcept {
    return accepts_work_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
  [[nodiscard]] Totals totals() const noexcept {
    return {recovered_jobs_.load(std::memory_order_relaxed),
            recovered_far_jobs_.load(std::memory_order_relaxed),
            mutations_.load(std::memory_order_relaxed),
            commit_failures_.load(std::memory_order_relaxed),
            recoveries_.load(std::memory_order_relaxed),
            accepts_puts_.load(std::memory_order_relaxed)};
  }

 private:
  // For the thread of the partition.

  void handle(Message& message) {
    const broker::SessionId session = message.command.ticket.session;
    switch (message.kind) {
      case Message::Kind::kOpen: host_.open_session(session); return;
      case Message::Kind::kClose: host_.close_session(session); return;
      case Message::Kind::kEndWaiting: host_.end_waiting(session); return;
      case Message::Kind::kCommand:
        message.command.tube = message.tube;
        host_.submit(std::move(message.command));
        return;
      case Message::Kind::kHoldSchedules: host_.hold_schedules(message.held); return;
      case Message::Kind::kStop:
        stopping_ = true;
        host_.checkpoint();
        return;
    }
  }

  void turn() {
    if (host_.turn()) {
      boost::asio::post(loop_, [this] { turn(); });
    } else {
      wake_.set(host_.next_wake());
    }
    if (publish() || !replies_.empty()) deliver();
  }

  void deliver() {
    boost::asio::post(group_.loop_, [this, replies = std::exchange(replies_, {})]() mutable {
      for (Delivery& delivery : replies) {
        group_.events_.on_reply(index_, delivery.ticket, std::move(delivery.reply));
      }
      group_.events_.request_turn();
    });
  }

  /// Shows the network thread how things stand; returns whether it has to look.
  bool publish() {
    recovered_jobs_.store(host_.stats().recovered_jobs, std::memory_order_relaxed);
    recovered_far_jobs_.store(host_.stats().recovered_far_jobs, std::memory_order_relaxed);
    mutations_.store(host_.stats().mutations, std::memory_order_relaxed);
    commit_failures_.store(host_.stats().commit_failures, std::memory_order_relaxed);
    recoveries_.store(host_.stats().recoveries, std::memory_order_relaxed);
    accepts_puts_.store(host_.has_room_for_puts(), std::memory_order_relaxed);
    const bool accepts = host_.accepts_work();
    const bool stopped = stopping_ && host_.idle();
    const bool accepts_changed =
        accepts_work_.exchange(accepts, std::memory_order_acq_rel) != accepts;
    const bool stopped_changed = stopped_.exchange(stopped, std::memory_order_acq_rel) != stopped;
    return (accepts_changed && accepts) || (stopped_changed && stopped);
  }

  PartitionThreads& group_;
  const std::size_t index_;
  std::vector<Message> outbox_;  // The network thread's.

  std::atomic<bool> accepts_work_{true};
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint64_t> recovered_jobs_{0};
  std::atomic<std::uint64_t> recovered_far_jobs_{0};
  std::atomic<std::uint64_t> mutations_{0};
  std::atomic<std::uint64_t> commit_failures_{0};
  std::atomic<std::uint64_t> recoveries_{0};
  std::atomic<bool> accepts_puts_{true};

  // The thread's. The loop first: what runs on it dies before it.
  boost::asio::io_context loop_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::vector<Delivery> replies_;
  bool stopping_ = false;
  WakeTimer wake_;
  PartitionHost host_;
  std::thread thread_;
};

PartitionThreads::PartitionThreads(boost::asio::io_context& loop, PartitionSetup setup,
                                   Events events)
    : loop_(loop), events_(std::move(events)) {
  const std::size_t count = setup.stores.size();
  for (std::size_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<Worker>(*this, i, host_options_of(setup.host, i, count),
                                                std::move(setup.stores[i]), setup));
  }
}

PartitionThreads::~PartitionThreads() = default;

Result<void> PartitionThreads::open() {
  std::vector<std::future<Result<void>>> opening;
  for (const auto& worker : workers_) opening.push_back(worker->start());
  Result<void> result;
  for (std::future<Result<void>>& opened : opening) {
    Result<void> one = opened.get();
    if (!one && result) result = std::move(one);
  }
  return result;
}

void PartitionThreads::open_session(broker::SessionId session) {
  for (const auto& worker : workers_) {
    Message message;
    message.kind = Message::Kind::kOpen;
    message.command.ticket.session = session;
    worker->send(std::move(message));
  }
}

void PartitionThreads::close_session(broker::SessionId session) {
  for (const auto& worker : workers_) {
    Message message;
    message.kind = Message::Kind::kClose;
    message.command.ticket.session = session;
    worker->send(std::move(message));
  }
  events_.request_turn();
}

void PartitionThreads::end_waiting(std::size_t partition, broker::SessionId session) {
  Message message;
  message.kind = Message::Kind::kEndWaiting;
  message.command.ticket.session = session;
  workers_[partition]->send(std::move(message));
  events_.request_turn();
}

void PartitionThreads::submit(std::size_t partition, broker::Command command) {
  Message message;
  message.tube = command.tube;
  message.command = std::move(command);
  workers_[partition]->send(std::move(message));
  events_.request_turn();
}

void PartitionThreads::end_turn() {
  for (const auto& worker : workers_) worker->flush();
}

bool PartitionThreads::accepts_work() const noexcept {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->accepts_work(); });
}

void PartitionThreads::hold_schedules(bool held) {
  for (const auto& worker : workers_) {
    Message message;
    message.kind = Message::Kind::kHoldSchedules;
    message.held = held;
    worker->send(std::move(message));
  }
  events_.request_turn();
}

void PartitionThreads::begin_stop() {
  for (const auto& worker : workers_) {
    Message message;
    message.kind = Message::Kind::kStop;
    worker->send(std::move(message));
  }
  events_.request_turn();
}

bool PartitionThreads::stopped() const noexcept {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->stopped(); });
}

PartitionGroup::Totals PartitionThreads::totals() const noexcept {
  Totals sum;
  for (const auto& worker : workers_) {
    const Totals one = worker->totals();
    sum.recovered_jobs += one.recovered_jobs;
    sum.recovered_far_jobs += one.recovered_far_jobs;
    sum.mutations += one.mutations;
    sum.commit_failures += one.commit_failures;
    sum.recoveries += one.recoveries;
    sum.accepts_puts = sum.accepts_puts && one.accepts_puts;
  }
  return sum;
}

}  // namespace carillon::server
