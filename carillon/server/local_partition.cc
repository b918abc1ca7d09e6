// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/local_partition.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "carillon/base/check.h"

namespace carillon::server {

/// A call into the host while it lasts. The only code of others that runs inside one are the
/// functions of Events, so whoever finds another under way is one of those.
class LocalPartition::Call {
 public:
  Call(LocalPartition& group, const char* what) : group_(group) {
    CARILLON_CHECK(group.under_way_ == nullptr, what, " from inside a reply of ", group.under_way_);
    group.under_way_ = what;
  }
  ~Call() { group_.under_way_ = nullptr; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  LocalPartition& group_;
};

PartitionHostOptions host_options_of(const PartitionHostOptions& all, std::size_t index,
                                     std::size_t count) {
  PartitionHostOptions options = all;
  options.broker.first_id = index + 1;
  options.broker.id_step = count;
  options.broker.owns_default_tube = partition_of_tube("default", count) == index;
  return options;
}

LocalPartition::LocalPartition(boost::asio::io_context& loop, PartitionSetup setup, Events events)
    : events_(std::move(events)),
      wake_(loop, events_.request_turn),
      host_(host_options_of(setup.host, 0, 1), std::move(setup.stores.at(0)), setup.clock,
            setup.calendar, std::move(setup.boot_id),
            {[this](broker::Ticket ticket, broker::Reply reply) {
               events_.on_reply(0, ticket, std::move(reply));
             },
             [this, &loop](std::function<void()> call) {
               boost::asio::post(loop, [this, call = std::move(call)] {
                 {
                   const Call posted(*this, "a posted call");
                   call();
                 }
                 events_.request_turn();
               });
             },
             std::move(setup.log), events_.send_answers}) {}

void LocalPartition::open_session(broker::SessionId session) {
  const Call call(*this, "open_session");
  host_.open_session(session);
}

void LocalPartition::close_session(broker::SessionId session) {
  {
    const Call call(*this, "close_session");
    host_.close_session(session);
  }
  events_.request_turn();
}

void LocalPartition::end_waiting(std::size_t, broker::SessionId session) {
  const Call call(*this, "end_waiting");
  host_.end_waiting(session);
}

void LocalPartition::submit(std::size_t, broker::Command command) {
  const Call call(*this, "submit");
  host_.submit(std::move(command));
}

void LocalPartition::end_turn() {
  const Call call(*this, "end_turn");
  if (host_.turn()) {
    // More is due than one turn may handle: let the sockets have their turn in between.
    events_.request_turn();
    return;
  }
  wake_.set(host_.next_wake());
}

void LocalPartition::begin_stop() {
  const Call call(*this, "begin_stop");
  host_.checkpoint();
  events_.request_turn();
}

PartitionGroup::Totals LocalPartition::totals() const noexcept {
  const PartitionHostStats& stats = host_.stats();
  return {stats.recovered_jobs,  stats.recovered_far_jobs, stats.mutations,
          stats.commit_failures, stats.recoveries,         host_.has_room_for_puts()};
}

}  // namespace carillon::server
