// SPDX-License-Identifier: Apache-2.0
// Looking after jobs over HTTP: get, cancel, kick.

#include <functional>
#include <utility>

#include "carillon/protocol/http/fields.h"
#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_job_json.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using protocol::http::Fields;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ProblemKind;

Problem job_reserved(broker::JobId id) {
  return {ProblemKind::kJobReserved, "only the worker that has it may answer for it", {}, {}, id};
}

/// The same for each: not found, reserved, the store.
std::optional<Problem> problem_of(const Reply& reply) {
  if (reply.answer == Answer::kNotFound) return no_such_job();
  if (reply.answer == Answer::kConflict) return job_reserved(reply.id);
  return failure_of(reply);
}

/// Asks for the job with `verb` and gives the reply to `then`, unless that is a problem.
void ask(HttpExchange& exchange, const HttpExchange::JobName& name, Verb verb, bool with_body,
         std::function<void(Reply)> then) {
  Command command;
  command.verb = verb;
  command.with_body = with_body;
  name.name(command);
  exchange.ask(name.partition, std::move(command),
               [&exchange, then = std::move(then)](Reply reply) {
                 if (std::optional<Problem> problem = problem_of(reply)) {
                   return exchange.respond(std::move(*problem));
                 }
                 then(std::move(reply));
               });
}

void respond_with_job(HttpExchange& exchange, const Reply& reply, bool with_body) {
  JsonWriter out;
  write_job(std::get<broker::JobView>(*reply.detail), with_body ? &reply.body : nullptr, out);
  exchange.respond_json(200, out);
}

}  // namespace

void get_job(HttpExchange& exchange) {
  const std::optional<HttpExchange::JobName> name = exchange.job_name();
  if (!name) return;
  Fields fields(exchange.query());
  bool with_body = true;
  fields.flag("body", with_body);
  if (std::optional<Problem> problem = fields.finish())
    return exchange.respond(std::move(*problem));
  ask(exchange, *name, Verb::kGet, with_body,
      [&exchange, with_body](const Reply& reply) { respond_with_job(exchange, reply, with_body); });
}

void get_job_body(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const std::optional<HttpExchange::JobName> name = exchange.job_name();
  if (!name) return;
  ask(exchange, *name, Verb::kGet, true, [&exchange](Reply reply) {
    const auto& job = std::get<broker::JobView>(*reply.detail);
    HttpResponse response;
    response.content_type = job.extras != nullptr && !job.extras->content_type.empty()
                                ? job.extras->content_type
                                : "application/octet-stream";
    // Whoever put it may have meant harm: it is not to be run as a page of this server.
    response.headers = {{"Content-Security-Policy", "default-src 'none'; sandbox"},
                        {"Content-Disposition", "attachment"}};
    response.job_body = std::move(reply.body);
    exchange.respond(std::move(response));
  });
}

void delete_job(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const std::optional<HttpExchange::JobName> name = exchange.job_name();
  if (!name) return;
  ask(exchange, *name, Verb::kCancel, false,
      [&exchange](const Reply&) { exchange.respond(HttpResponse{204}); });
}

void change_job(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const std::optional<HttpExchange::JobName> name = exchange.job_name();
  if (!name) return;
  const auto values = exchange.json();
  if (!values) return;
  protocol::http::ChangeRequest request;
  if (std::optional<Problem> problem = protocol::http::decode_change(*values, request)) {
    return exchange.respond(std::move(*problem));
  }
  Command command;
  command.verb = Verb::kChange;
  command.sets_delay = request.delay_ms.has_value();
  command.delay = std::chrono::milliseconds(request.delay_ms.value_or(0));
  command.sets_priority = request.priority.has_value();
  command.priority = request.priority.value_or(0);
  broker::CommandOptions options;
  options.due_at_ms = request.due_at_ms;
  name->name(command, std::move(options));
  exchange.ask(name->partition, std::move(command), [&exchange, name = *name](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      return exchange.respond(std::move(*problem));
    }
    // As it is now. It may be gone already, since it was not ours in between.
    ask(exchange, name, Verb::kGet, false,
        [&exchange](const Reply& now) { respond_with_job(exchange, now, false); });
  });
}

void kick_job(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const std::optional<HttpExchange::JobName> name = exchange.job_name();
  if (!name) return;
  Command command;
  command.verb = Verb::kKickJob;
  name->name(command);
  exchange.ask(name->partition, std::move(command), [&exchange, id = name->id](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      if (problem->kind == ProblemKind::kNoSuchJob) {
        problem->detail = "there is no buried or delayed job so named";
      }
      return exchange.respond(std::move(*problem));
    }
    JsonWriter out;
    out.begin_object();
    if (id != 0) out.id("id", id);
    out.field("state", "ready");
    out.end_object();
    exchange.respond_json(200, out);
  });
}

}  // namespace carillon::server
