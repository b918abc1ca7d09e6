// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/stats_document.h"

#include <utility>
#include <vector>

#include "carillon/protocol/http/json_writer.h"
#include "carillon/server/dashboard_json.h"
#include "carillon/server/http_desk.h"

namespace carillon::server {
namespace {

using protocol::http::JsonWriter;

void write(const broker::PartitionStats& sum, HttpContext& context, JsonWriter& out) {
  const HttpContext::ServerFacts facts = context.describe();
  out.begin_object();
  out.time("now", floor_ms(context.calendar.now()));
  out.field("version", facts.version);
  out.field("id", facts.id);
  out.field("uptime_ms", facts.uptime_ms);
  out.field("draining", context.draining);
  out.field("held", facts.held);
  out.key("jobs");
  out.begin_object();
  out.field("ready", sum.jobs.ready);
  out.field("urgent", sum.jobs.urgent);
  out.field("reserved", sum.jobs.reserved);
  out.field("delayed", sum.jobs.delayed);
  out.field("far", sum.far_jobs);
  out.field("buried", sum.jobs.buried);
  out.end_object();
  out.field("total_jobs", sum.total_jobs);
  out.field("job_timeouts", sum.timeouts);
  out.field("tubes", sum.tubes);
  out.field("body_bytes", sum.body_bytes);
  out.field("connections", facts.connections);
  out.key("http");
  out.begin_object();
  out.field("connections", facts.http_connections);
  out.field("requests", context.requests);
  out.field("waiting", context.waiting);
  out.field("request_body_bytes", context.bodies);
  out.end_object();
  out.key("limits");
  out.begin_object();
  for (const auto& [name, limit] : facts.limits) out.field(name, limit);
  out.end_object();
  out.end_object();
}

}  // namespace

void gather_stats(HttpContext& context, std::function<void(std::string json)> then) {
  broker::Command command;
  command.verb = broker::Verb::kStats;
  context.desk.ask_all(
      command, [&context, then = std::move(then)](const std::vector<broker::Reply>& replies) {
        broker::PartitionStats sum;
        for (const broker::Reply& reply : replies) {
          if (reply.detail == nullptr) return then({});
          add_to(sum, std::get<broker::PartitionStats>(*reply.detail));
        }
        JsonWriter out;
        write(sum, context, out);
        then(out.take());
      });
}

}  // namespace carillon::server
