// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Commands beyond beanstalk's in the words of a test.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "carillon/broker/testing/world.h"

namespace carillon::broker::testing {

inline JobExtras with_key(std::string key) {
  JobExtras extras;
  extras.key = std::move(key);
  return extras;
}

inline JobExtras with_date(std::int64_t due_at_ms) {
  JobExtras extras;
  extras.due_at_ms = due_at_ms;
  return extras;
}

inline Command put_command(std::string_view body, const JobExtras& extras, Span delay = {},
                           OnConflict on_conflict = OnConflict::kReturn,
                           std::string_view tube = "default") {
  Command command;
  command.verb = Verb::kPut;
  command.tube = tube;
  command.body = Body(body);
  command.delay = delay;
  command.ttr = seconds(60);
  command.extras = std::make_shared<const JobExtras>(extras);
  command.on_conflict = on_conflict;
  return command;
}

/// A command that names a job.
inline Command on_job(Verb verb, JobId id) {
  Command command;
  command.verb = verb;
  command.id = id;
  return command;
}

inline Command on_key(Verb verb, std::string key, std::string_view tube = "default") {
  Command command;
  command.verb = verb;
  command.tube = tube;
  CommandOptions options;
  options.key = std::move(key);
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  return command;
}

inline Command change_delay(JobId id, Span delay) {
  Command command = on_job(Verb::kChange, id);
  command.sets_delay = true;
  command.delay = delay;
  return command;
}

inline Command change_date(JobId id, std::int64_t due_at_ms) {
  Command command = on_job(Verb::kChange, id);
  CommandOptions options;
  options.due_at_ms = due_at_ms;
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  return command;
}

inline Command list_command(std::string_view tube, const ListQuery& query) {
  Command command;
  command.verb = Verb::kList;
  command.tube = tube;
  CommandOptions options;
  options.list = query;
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  return command;
}

inline Command clear_command(std::string_view tube, JobStates states) {
  Command command;
  command.verb = Verb::kClear;
  command.tube = tube;
  command.states = states;
  return command;
}

inline Command set_tube_command(std::string_view tube, const TubeSettings& settings) {
  Command command;
  command.verb = Verb::kSetTube;
  command.tube = tube;
  CommandOptions options;
  options.settings = settings;
  command.options = std::make_shared<const CommandOptions>(std::move(options));
  return command;
}

inline JobView view_of(const Reply& reply) { return std::get<JobView>(*reply.detail); }

/// The job as kGet shows it; it must exist.
inline JobView get(World& world, SessionId session, JobId id) {
  const auto reply = world.run(session, on_job(Verb::kGet, id));
  CARILLON_CHECK(reply && reply->answer == Answer::kFound, "job ", id, " is not found");
  return view_of(*reply);
}

/// A broker whose far jobs begin at a minute.
inline BrokerOptions far_options() {
  BrokerOptions options;
  options.store_keeps_far_jobs = options.store_keeps_bodies = true;
  options.horizon = seconds(60);
  options.body_budget_bytes = 0;
  return options;
}

}  // namespace carillon::broker::testing
