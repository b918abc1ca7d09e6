// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/local_partition.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace carillon::server {

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
                 call();
                 events_.request_turn();
               });
             },
             std::move(setup.log), events_.send_answers}) {}

void LocalPartition::close_session(broker::SessionId session) {
  host_.close_session(session);
  events_.request_turn();
}

void LocalPartition::end_waiting(std::size_t, broker::SessionId session) {
  host_.end_waiting(session);
}

void LocalPartition::submit(std::size_t, broker::Command command) {
  host_.submit(std::move(command));
}

void LocalPartition::end_turn() {
  if (host_.turn()) {
    // More is due than one turn may handle: let the sockets have their turn in between.
    events_.request_turn();
    return;
  }
  wake_.set(host_.next_wake());
}

void LocalPartition::begin_stop() {
  host_.checkpoint();
  events_.request_turn();
}

PartitionGroup::Totals LocalPartition::totals() const noexcept {
  const PartitionHostStats& stats = host_.stats();
  return {stats.recovered_jobs,  stats.recovered_far_jobs, stats.mutations,
          stats.commit_failures, stats.recoveries,         host_.has_room_for_puts()};
}

}  // namespace carillon::server
