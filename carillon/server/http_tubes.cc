// SPDX-License-Identifier: Apache-2.0
// Tubes over HTTP: list, statistics, pause, kick.

#include <algorithm>
#include <memory>
#include <utility>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_tube_json.h"
#include "carillon/server/webhook/settings_document.h"
#include "carillon/server/webhook/webhooks.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ProblemKind;

/// Of a page, so many tubes in one turn.
constexpr std::size_t kTurnTubes = 100;

Command command_of(Verb verb, std::string_view tube) {
  Command command;
  command.verb = verb;
  command.tube = tube;
  return command;
}

std::optional<Problem> problem_of(const Reply& reply) {
  if (reply.answer == Answer::kNotFound) {
    return Problem{ProblemKind::kNoSuchTube,
                   "it has no jobs, nobody watches it, and it has no settings"};
  }
  return failure_of(reply);
}

}  // namespace

void write_tube(const broker::TubeStats& tube, const Webhooks* webhooks, bool for_admin,
                JsonWriter& out) {
  out.begin_object();
  out.field("name", tube.name);
  out.key("jobs");
  out.begin_object();
  out.field("ready", tube.jobs.ready);
  out.field("urgent", tube.jobs.urgent);
  out.field("reserved", tube.jobs.reserved);
  out.field("delayed", tube.jobs.delayed);
  out.field("far", tube.far_jobs);
  out.field("buried", tube.jobs.buried);
  out.end_object();
  out.field("total_jobs", tube.total_jobs);
  out.field("fired", tube.fired_count);
  out.field("reserves", tube.reserve_count);
  out.field("deletes", tube.delete_count);
  out.field("oldest_ready_age_ms", tube.oldest_ready_age_ms);
  if (tube.next_due_ms) out.field("next_due_in_ms", *tube.next_due_ms);
  if (tube.lateness_us.count > 0) {
    out.key("lateness_ms");
    out.begin_object();
    out.field("p50", static_cast<double>(tube.lateness_us.quantile(0.5)) / 1000);
    out.field("p99", static_cast<double>(tube.lateness_us.quantile(0.99)) / 1000);
    out.end_object();
  }
  out.field("watching", tube.watching_count);
  out.field("waiting", tube.waiting_count);
  out.field("pauses", tube.pause_count);
  out.field("pause_left_ms", tube.pause_left_ms);
  out.key("settings");
  out.begin_object();
  if (tube.settings.max_jobs != 0) out.field("max_jobs", tube.settings.max_jobs);
  const WebhookSettings* webhook = webhooks == nullptr ? nullptr : webhooks->settings_of(tube.name);
  if (webhook != nullptr && for_admin) {
    out.key("webhook");
    write_webhook(*webhook, false, out);
  }
  out.end_object();
  if (webhook != nullptr) {
    out.key("webhook");
    WebhookState state = *webhooks->state_of(tube.name);
    if (!for_admin) state.last_error.clear();
    write_webhook_state(*webhook, state, out);
  }
  out.end_object();
}

namespace {

/// Responds with the statistics of a tube.
void respond_with_tube(HttpExchange& exchange, std::string_view tube) {
  exchange.ask(exchange.partition_of(tube), command_of(Verb::kStatsTube, tube),
               [&exchange](const Reply& reply) {
                 if (std::optional<Problem> problem = problem_of(reply)) {
                   return exchange.respond(std::move(*problem));
                 }
                 JsonWriter out;
                 write_tube(std::get<broker::TubeStats>(*reply.detail), exchange.context().webhooks,
                            exchange.is_admin(), out);
                 exchange.respond_json(200, out);
               });
}

void pause(HttpExchange& exchange, std::string_view tube, std::int64_t for_ms) {
  Command command = command_of(Verb::kPauseTube, tube);
  command.delay = std::chrono::milliseconds(for_ms);
  exchange.ask(exchange.partition_of(tube), std::move(command), [&exchange](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      return exchange.respond(std::move(*problem));
    }
    exchange.respond(HttpResponse{204});
  });
}

/// A page of tubes under way: their names first, then the statistics of each.
class TubePage : public std::enable_shared_from_this<TubePage> {
 public:
  TubePage(HttpExchange& exchange, protocol::http::TubesRequest request)
      : exchange_(exchange), request_(std::move(request)), for_admin_(exchange.is_admin()) {}

  void begin() {
    Command command;
    command.verb = Verb::kListTubes;
    exchange_.ask_all(command, [self = shared_from_this()](std::vector<Reply> replies) {
      self->on_names(std::move(replies));
    });
  }

 private:
  void on_names(std::vector<Reply> replies) {
    for (Reply& reply : replies) {
      if (std::optional<Problem> problem = failure_of(reply)) {
        return exchange_.respond(std::move(*problem));
      }
      for (std::string& name : std::get<broker::TubeNames>(*reply.detail)) {
        if (name.starts_with(request_.prefix) && name > request_.after) {
          names_.push_back(std::move(name));
        }
      }
    }
    const bool more = names_.size() > request_.limit;
    const auto end =
        names_.begin() + static_cast<std::ptrdiff_t>(std::min(names_.size(), request_.limit));
    std::partial_sort(names_.begin(), end, names_.end());
    names_.erase(end, names_.end());
    if (more) next_ = names_.back();
    out_.begin_object();
    out_.key("tubes");
    out_.begin_array();
    ask_some();
  }

  void ask_some() {
    if (asked_ == names_.size()) return finish();
    const std::size_t until = std::min(names_.size(), asked_ + kTurnTubes);
    missing_ = until - asked_;
    while (asked_ < until) {
      const std::string& name = names_[asked_++];
      exchange_.ask(exchange_.partition_of(name), command_of(Verb::kStatsTube, name),
                    [self = shared_from_this()](const Reply& reply) { self->on_reply(reply); });
    }
  }

  void on_reply(const Reply& reply) {
    // One that is not found has ceased to be since it was listed.
    if (reply.detail != nullptr) stats_.push_back(std::get<broker::TubeStats>(*reply.detail));
    if (--missing_ > 0) return;
    std::sort(stats_.begin(), stats_.end(),
              [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const broker::TubeStats& tube : stats_) {
      write_tube(tube, exchange_.context().webhooks, for_admin_, out_);
    }
    stats_.clear();
    exchange_.defer([self = shared_from_this()] { self->ask_some(); });
  }

  void finish() {
    out_.end_array();
    if (!next_.empty()) out_.field("next", next_);
    out_.end_object();
    exchange_.respond_json(200, out_);
  }

  HttpExchange& exchange_;
  const protocol::http::TubesRequest request_;
  const bool for_admin_;
  std::vector<std::string> names_;
  std::string next_;
  std::size_t asked_ = 0;
  std::size_t missing_ = 0;
  std::vector<broker::TubeStats> stats_;
  JsonWriter out_;
};

}  // namespace

void list_tubes(HttpExchange& exchange) {
  protocol::http::TubesRequest request;
  if (std::optional<Problem> problem = protocol::http::decode_tubes(exchange.query(), request)) {
    return exchange.respond(std::move(*problem));
  }
  std::make_shared<TubePage>(exchange, std::move(request))->begin();
}

void get_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  respond_with_tube(exchange, *tube);
}

void pause_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  std::int64_t for_ms = 0;
  if (std::optional<Problem> problem = protocol::http::decode_pause(*values, for_ms)) {
    return exchange.respond(std::move(*problem));
  }
  pause(exchange, *tube, for_ms);
}

void resume_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  pause(exchange, *tube, 0);
}

void kick_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  std::int64_t count = 0;
  if (std::optional<Problem> problem = protocol::http::decode_kick(*values, count)) {
    return exchange.respond(std::move(*problem));
  }
  Command command = command_of(Verb::kKick, *tube);
  command.count = static_cast<std::uint64_t>(count);
  exchange.ask(exchange.partition_of(*tube), std::move(command), [&exchange](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      return exchange.respond(std::move(*problem));
    }
    JsonWriter out;
    out.begin_object();
    out.field("kicked", reply.count);
    out.end_object();
    exchange.respond_json(200, out);
  });
}

void clear_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  Command command = command_of(Verb::kClear, *tube);
  if (std::optional<Problem> problem = protocol::http::decode_clear(*values, command.states)) {
    return exchange.respond(std::move(*problem));
  }
  exchange.ask(exchange.partition_of(*tube), std::move(command), [&exchange](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      return exchange.respond(std::move(*problem));
    }
    JsonWriter out;
    out.begin_object();
    out.field("cleared", reply.count);
    out.end_object();
    exchange.respond_json(200, out);
  });
}

void set_tube(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  auto options = std::make_shared<broker::CommandOptions>();
  Webhooks* const webhooks = exchange.context().webhooks;
  protocol::http::Fields fields(*values);
  protocol::http::read_tube_settings(fields, options->settings);
  if (webhooks != nullptr) {
    if (std::optional<protocol::http::Fields> webhook = fields.object("webhook")) {
      std::optional<WebhookSettings> settings(std::in_place);
      if (std::optional<Problem> problem = decode_webhook(
              std::move(*webhook), webhooks->settings_of(std::string(*tube)), *settings)) {
        fields.fail(std::move(*problem));
      } else if (std::optional<std::string> why = webhooks->refusal(settings->target.url.host)) {
        fields.fail(Problem{ProblemKind::kInvalidField,
                            settings->target.url.host + " " + *why +
                                ", and the server's option webhook-allow does not name it",
                            "webhook.url", "a public address, or one that webhook-allow names"});
      }
      options->settings.document = webhook_document(settings);
    }
  }
  if (std::optional<Problem> problem = fields.finish()) {
    return exchange.respond(std::move(*problem));
  }
  Command command = command_of(Verb::kSetTube, *tube);
  command.options = options;
  exchange.ask(exchange.partition_of(*tube), std::move(command), [&exchange](const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply)) {
      return exchange.respond(std::move(*problem));
    }
    exchange.respond(HttpResponse{204});
  });
  // Behind it, and even if this client goes away before it is answered.
  if (webhooks != nullptr) webhooks->look_again(std::string(*tube));
}

}  // namespace carillon::server
