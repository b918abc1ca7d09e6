// SPDX-License-Identifier: Apache-2.0
// The server itself over HTTP: statistics, events, health.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "carillon/server/dashboard_json.h"
#include "carillon/server/http_events.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/stats_document.h"
#include "carillon/server/units.h"

namespace carillon::server {
namespace {

using broker::Reply;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ProblemKind;

void respond_status(HttpExchange& exchange, std::string_view status) {
  JsonWriter out;
  out.begin_object();
  out.field("status", status);
  out.end_object();
  exchange.respond_json(200, out);
}

std::string too_little_space(const HttpContext::ServerFacts& facts) {
  constexpr double kBytesPerMiB = 1 << 20;
  return fmt::format(
      "puts are refused: {} MiB are free on the data folder's disk, less than "
      "min-free-space ({})",
      facts.free_bytes
          ? fmt::format("{:.1f}", static_cast<double>(*facts.free_bytes) / kBytesPerMiB)
          : "?",
      format_size(facts.min_free_bytes));
}

}  // namespace

void get_stats(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  exchange.with_stats([&exchange](std::string json) {
    if (json.empty()) {
      Problem problem{ProblemKind::kUnavailable, "the partitions could not say"};
      problem.retry_after_s = 1;
      return exchange.respond(std::move(problem));
    }
    exchange.respond(HttpResponse{200, "application/json", std::move(json)});
  });
}

void get_events(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  exchange.context().events.subscribe(exchange);
}

/// The wheels of all partitions on top of each other, and when delayed jobs fall due.
void get_wheel(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  broker::Command command;
  command.verb = broker::Verb::kWheel;
  exchange.ask_all(command, [&exchange](const std::vector<Reply>& replies) {
    broker::WheelView sum;
    for (const Reply& reply : replies) {
      if (std::optional<Problem> problem = failure_of(reply)) {
        return exchange.respond(std::move(*problem));
      }
      add_to(sum, std::get<broker::WheelView>(*reply.detail));
    }
    JsonWriter out;
    out.begin_object();
    out.key("wheel");
    write_wheel(sum, out);
    out.key("due_in");
    write_due(sum, out);
    out.field("far", sum.far);
    out.end_object();
    exchange.respond_json(200, out);
  });
}

/// The process lives and its loop turns.
void get_health(HttpExchange& exchange) {
  if (exchange.expect_no_query()) respond_status(exchange, "ok");
}

/// Jobs can be put and reserved: the store of every partition answers, and nobody drains it.
void get_readiness(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  if (exchange.context().draining || exchange.context().stopping) {
    return exchange.respond(Problem{ProblemKind::kDraining, "puts are refused"});
  }
  broker::Command command;
  command.verb = broker::Verb::kStats;  // Refused while a store is being recovered.
  exchange.ask_all(command, [&exchange](const std::vector<Reply>& replies) {
    for (const Reply& reply : replies) {
      if (reply.answer == broker::Answer::kInternalError) {
        return exchange.respond(
            Problem{ProblemKind::kUnavailable, "the store of a partition is being recovered"});
      }
    }
    const HttpContext::ServerFacts facts = exchange.context().describe();
    if (!facts.accepts_puts) {
      return exchange.respond(Problem{ProblemKind::kUnavailable, too_little_space(facts)});
    }
    respond_status(exchange, "ready");
  });
}

}  // namespace carillon::server
