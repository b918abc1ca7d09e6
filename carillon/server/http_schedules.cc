// SPDX-License-Identifier: Apache-2.0
// Schedules over HTTP. A schedule lies in the partition of its tube, which its name does not tell:
// who asks for it by name asks all of them.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "carillon/protocol/http/schedule_requests.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_job_json.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::ScheduleView;
using broker::Verb;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ProblemKind;

/// The name in the path, or nothing: then it has responded.
std::optional<std::string_view> name_argument(HttpExchange& exchange) {
  const std::string_view name = exchange.argument(0);
  if (protocol::http::is_schedule_name(name)) return name;
  exchange.respond(Problem{ProblemKind::kInvalidField, "is not the name of a schedule", "name",
                           "1 to 200 bytes of UTF-8 without control characters"});
  return std::nullopt;
}

Command on_schedule(Verb verb, broker::ScheduleSettings settings) {
  Command command;
  command.verb = verb;
  broker::CommandOptions options;
  options.schedule = std::move(settings);
  command.options = std::make_shared<const broker::CommandOptions>(std::move(options));
  return command;
}

Command by_name(Verb verb, std::string_view name) {
  broker::ScheduleSettings settings;
  settings.name = name;
  return on_schedule(verb, std::move(settings));
}

void write_schedule(const ScheduleView& info, JsonWriter& out) {
  const broker::ScheduleSettings& settings = info.record.settings;
  const broker::ScheduleProgress& progress = info.record.progress;
  out.begin_object();
  out.field("name", settings.name);
  out.field("tube", settings.tube);
  out.field("spec", settings.spec);
  out.field("missed", protocol::http::to_string(settings.missed));
  out.field("overlap", protocol::http::to_string(settings.overlap));
  out.field("jitter_ms", settings.jitter_ms);
  out.field("priority", settings.priority);
  out.field("ttr_ms", settings.ttr_ms);
  if (settings.extras) {
    const broker::JobExtras& extras = *settings.extras;
    if (!extras.content_type.empty()) out.field("content_type", extras.content_type);
    if (extras.max_attempts > 0) out.field("max_attempts", extras.max_attempts);
    if (extras.backoff_base_ms > 0) {
      out.key("backoff");
      out.begin_object();
      out.field("base_ms", extras.backoff_base_ms);
      out.field("cap_ms", extras.backoff_cap_ms);
      out.field("jitter", extras.backoff_jitter);
      out.end_object();
    }
  }
  write_body(settings.body.view(), out);
  if (progress.due_ms) out.time("due_at", *progress.due_ms);
  if (info.next_at_ms) out.time("next_at", *info.next_at_ms);
  if (progress.queued_ms) out.time("queued", *progress.queued_ms);
  if (progress.last_ms) out.time("last_due_at", *progress.last_ms);
  if (progress.last_job != 0) out.id("last_job", progress.last_job);
  out.field("runs", progress.runs);
  out.field("missed_periods", progress.missed);
  out.field("skipped_periods", progress.skipped);
  out.end_object();
}

Problem no_such_schedule() {
  return {ProblemKind::kNoSuchResource, "there is no schedule of that name", "name"};
}

/// Asks all partitions, of which one at most knows the schedule, and calls back with its reply.
void ask_of(HttpExchange& exchange, Verb verb, std::string_view name,
            std::function<void(const Reply&)> then) {
  exchange.ask_all(
      by_name(verb, name), [&exchange, then = std::move(then)](const std::vector<Reply>& replies) {
        const auto known = std::find_if(replies.begin(), replies.end(), [](const Reply& reply) {
          return reply.answer != Answer::kNotFound && !failure_of(reply);
        });
        if (known != replies.end()) return then(*known);
        for (const Reply& reply : replies) {
          if (std::optional<Problem> problem = failure_of(reply)) {
            return exchange.respond(std::move(*problem));
          }
        }
        exchange.respond(no_such_schedule());
      });
}

Problem refused(const Reply& reply) {
  switch (reply.answer) {
    case Answer::kConflict:
      return {ProblemKind::kInvalidField, "is not that of the schedule with this name", "tube",
              "a schedule keeps its tube; delete it first"};
    case Answer::kNeverDue:
      return {ProblemKind::kInvalidField, "names no time to come", "spec", "until 2262"};
    case Answer::kTubeFull:
      return {
          ProblemKind::kTubeFull, "nothing was put", {}, "max_jobs of the settings of the tube"};
    default: break;
  }
  std::optional<Problem> problem = failure_of(reply);
  return problem ? std::move(*problem) : Problem{ProblemKind::kInternal, "no such answer"};
}

void respond_with(HttpExchange& exchange, const Reply& reply) {
  JsonWriter out;
  write_schedule(std::get<ScheduleView>(*reply.detail), out);
  exchange.respond_json(reply.answer == Answer::kScheduleSet && reply.count > 0 ? 201 : 200, out);
}

/// Sets a schedule while nobody else sets one of that name, so that the name is unique in the
/// server. It goes on to its end if the client goes away: else the next would begin before the
/// partitions have decided on this.
class Setting : public std::enable_shared_from_this<Setting> {
 public:
  Setting(HttpContext& context, broker::Ticket ticket, broker::ScheduleSettings settings)
      : context_(context),
        ticket_(ticket),
        settings_(std::move(settings)),
        partition_(partition_of_tube(settings_.tube, context.partitions.count())) {}

  [[nodiscard]] const std::string& name() const noexcept { return settings_.name; }

  /// First whether another partition knows one of that name.
  void begin() {
    if (context_.partitions.count() == 1) return set();
    context_.desk.ask_all(
        by_name(Verb::kGetSchedule, name()),
        [self = shared_from_this()](std::vector<Reply> replies) { self->on_asked(replies); });
  }

 private:
  void on_asked(std::vector<Reply>& replies) {
    for (std::size_t i = 0; i < replies.size(); ++i) {
      if (i == partition_ || replies[i].answer == Answer::kNotFound) continue;
      if (!failure_of(replies[i])) replies[i].answer = Answer::kConflict;
      return end(std::move(replies[i]));
    }
    set();
  }

  void set() {
    context_.desk.ask(partition_, on_schedule(Verb::kSetSchedule, settings_),
                      [self = shared_from_this()](std::size_t /*partition*/, Reply reply) {
                        self->end(std::move(reply));
                      });
  }

  void end(Reply reply) {
    context_.deliver(partition_, ticket_, std::move(reply));
    context_.schedule_names.give_back(name());
  }

  HttpContext& context_;
  const broker::Ticket ticket_;  // Of who gets the reply, if it is still there.
  const broker::ScheduleSettings settings_;
  const std::size_t partition_;
};

}  // namespace

void set_schedule(HttpExchange& exchange) {
  const std::optional<std::string_view> name = name_argument(exchange);
  if (!name || !exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  broker::ScheduleSettings settings;
  settings.name = *name;
  if (std::optional<Problem> problem = protocol::http::decode_schedule(
          *values, exchange.context().limits.max_job_size, settings)) {
    return exchange.respond(std::move(*problem));
  }
  const broker::Ticket ticket = exchange.expect([&exchange](const Reply& reply) {
    if (reply.answer != Answer::kScheduleSet) return exchange.respond(refused(reply));
    respond_with(exchange, reply);
  });
  HttpContext& context = exchange.context();
  auto setting = std::make_shared<Setting>(context, ticket, std::move(settings));
  if (context.schedule_names.take(setting->name(), [setting] { setting->begin(); })) return;
  Problem problem{ProblemKind::kOverloaded, "too many others are setting schedules", "name"};
  problem.retry_after_s = 1;
  exchange.respond(std::move(problem));
}

void get_schedule(HttpExchange& exchange) {
  const std::optional<std::string_view> name = name_argument(exchange);
  if (!name || !exchange.expect_no_query()) return;
  ask_of(exchange, Verb::kGetSchedule, *name,
         [&exchange](const Reply& reply) { respond_with(exchange, reply); });
}

void delete_schedule(HttpExchange& exchange) {
  const std::optional<std::string_view> name = name_argument(exchange);
  if (!name || !exchange.expect_no_query()) return;
  ask_of(exchange, Verb::kDeleteSchedule, *name,
         [&exchange](const Reply& /*reply*/) { exchange.respond(HttpResponse{204}); });
}

void run_schedule(HttpExchange& exchange) {
  const std::optional<std::string_view> name = name_argument(exchange);
  if (!name || !exchange.expect_no_query()) return;
  if (exchange.context().draining) return exchange.respond(is_draining());
  if (exchange.context().describe().held) {
    return exchange.respond(
        Problem{ProblemKind::kUnavailable, "the server is on hold: schedules put nothing"});
  }
  ask_of(exchange, Verb::kRunSchedule, *name, [&exchange](const Reply& reply) {
    if (reply.answer == Answer::kConflict) {
      return exchange.respond(Problem{ProblemKind::kJobReserved,
                                      "the instance before has not ended, and overlap is not allow",
                                      {},
                                      {},
                                      reply.id});
    }
    JsonWriter out;
    out.begin_object();
    out.id("id", reply.id);
    out.end_object();
    HttpResponse response{201, "application/json", out.take()};
    response.headers.emplace_back("Location", "/api/v1/jobs/" + std::to_string(reply.id));
    exchange.respond(std::move(response));
  });
}

void list_schedules(HttpExchange& exchange) {
  protocol::http::SchedulesRequest request;
  if (std::optional<Problem> problem =
          protocol::http::decode_schedules(exchange.query(), request)) {
    return exchange.respond(std::move(*problem));
  }
  Command command = by_name(Verb::kListSchedules, request.after);
  command.count = request.limit;
  exchange.ask_all(command, [&exchange, limit = request.limit](std::vector<Reply> replies) {
    std::vector<ScheduleView> found;
    bool more = false;
    for (Reply& reply : replies) {
      if (std::optional<Problem> problem = failure_of(reply)) {
        return exchange.respond(std::move(*problem));
      }
      auto& page = std::get<broker::SchedulePage>(*reply.detail);
      more |= page.more;
      std::move(page.schedules.begin(), page.schedules.end(), std::back_inserter(found));
    }
    std::sort(found.begin(), found.end(), [](const ScheduleView& a, const ScheduleView& b) {
      return a.record.settings.name < b.record.settings.name;
    });
    more |= found.size() > limit;
    if (found.size() > limit) found.resize(limit);
    JsonWriter out;
    out.begin_object();
    out.key("schedules");
    out.begin_array();
    for (const ScheduleView& info : found) write_schedule(info, out);
    out.end_array();
    if (more) out.field("next", found.back().record.settings.name);
    out.end_object();
    exchange.respond_json(200, out);
  });
}

}  // namespace carillon::server
