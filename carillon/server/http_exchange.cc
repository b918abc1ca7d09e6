// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_exchange.h"

#include <algorithm>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/protocol/http/fields.h"
#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_session.h"
#include "carillon/server/stats_document.h"

namespace carillon::server {

using broker::Command;
using broker::Reply;
using protocol::http::Problem;
using protocol::http::ProblemKind;

HttpExchange::HttpExchange(HttpSession& session, HttpContext& context, HttpRequest request)
    : session_(session), context_(context), request_(std::move(request)) {
  first_slot_ = session_.next_slot();
}

void HttpExchange::start(protocol::http::Destination destination) {
  destination_ = std::move(destination);
  handler_of(destination_.route->operation)(*this);
}

// The request.

std::optional<std::string_view> HttpExchange::tube_argument() {
  const std::string_view tube = argument(0);
  if (protocol::http::is_tube_name(tube)) return tube;
  respond(Problem{ProblemKind::kInvalidField, "is not the name of a tube", "tube",
                  std::string(protocol::http::kTubeNameLimit)});
  return std::nullopt;
}

std::optional<broker::JobId> HttpExchange::job_argument() {
  const std::optional<broker::JobId> id = protocol::http::parse_id(argument(0));
  if (!id) {
    respond(Problem{ProblemKind::kInvalidField, "is not the id of a job", "id",
                    "digits, from 1 to 2^64-1"});
  }
  return id;
}

std::optional<HttpExchange::JobName> HttpExchange::job_name() {
  JobName name;
  if (destination_.arguments.size() == 1) {
    const std::optional<broker::JobId> id = job_argument();
    if (!id) return std::nullopt;
    name.id = *id;
    name.partition = partition_of(*id);
    return name;
  }
  const std::optional<std::string_view> tube = tube_argument();
  if (!tube) return std::nullopt;
  name.tube = *tube;
  name.key = argument(1);
  name.partition = partition_of(name.tube);
  if (protocol::http::is_key(name.key)) return name;
  respond(Problem{ProblemKind::kInvalidField, "is not a key", "key",
                  std::string(protocol::http::kKeyLimit)});
  return std::nullopt;
}

void HttpExchange::JobName::name(Command& command, broker::CommandOptions options) const {
  command.id = id;
  command.tube = tube;
  options.key = key;
  if (id == 0 || options.due_at_ms) {
    command.options = std::make_shared<const broker::CommandOptions>(std::move(options));
  }
}

bool HttpExchange::has_content_type(std::string_view type) const {
  std::string_view sent = request_.content_type;
  sent = sent.substr(0, sent.find(';'));
  while (sent.ends_with(' ') || sent.ends_with('\t')) sent.remove_suffix(1);
  return sent.size() == type.size() &&
         std::equal(sent.begin(), sent.end(), type.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::optional<std::span<const protocol::http::Value>> HttpExchange::json() {
  if (!has_content_type("application/json")) {
    respond(Problem{ProblemKind::kUnsupportedMediaType, "this takes JSON", "Content-Type",
                    "application/json"});
    return std::nullopt;
  }
  if (std::optional<std::string> wrong = document_.parse(request_.body)) {
    respond(Problem{ProblemKind::kMalformedJson, std::move(*wrong), "body"});
    return std::nullopt;
  }
  return document_.values();
}

std::span<const protocol::http::Value> HttpExchange::query() {
  if (!std::exchange(has_query_, true)) query_ = request_.target.values();
  return query_;
}

bool HttpExchange::expect_no_query() {
  protocol::http::Fields fields(query());
  std::optional<Problem> problem = fields.finish();
  if (!problem) return true;
  respond(std::move(*problem));
  return false;
}

// The partitions.

std::size_t HttpExchange::partition_of(std::string_view tube) const {
  return partition_of_tube(tube, context_.partitions.count());
}
std::size_t HttpExchange::partition_of(broker::JobId id) const {
  return partition_of_job(id, context_.partitions.count());
}
broker::SessionId HttpExchange::session_id() const { return session_.id(); }
std::vector<std::string>& HttpExchange::watched() { return session_.watched(); }

std::uint64_t HttpExchange::add_slot(OnReply on_reply) {
  slots_.push_back(std::move(on_reply));
  return session_.take_slot();
}

broker::Ticket HttpExchange::expect(OnReply on_reply) {
  return {session_.id(), add_slot(std::move(on_reply))};
}

void HttpExchange::ask(std::size_t partition, Command command, OnReply on_reply) {
  command.ticket = expect(std::move(on_reply));
  context_.partitions.submit(partition, std::move(command));
}

void HttpExchange::ask_desk(std::size_t partition, Command command, OnReply on_reply) {
  // The connection may be gone when the reply comes: then nobody is found to take it.
  context_.desk.ask(partition, std::move(command), expect(std::move(on_reply)));
}

void HttpExchange::ask_all(const Command& command, OnReplies on_replies) {
  const std::size_t count = context_.partitions.count();
  const auto take = gather_replies(count, std::move(on_replies));
  for (std::size_t partition = 0; partition < count; ++partition) {
    ask(partition, command, [take, partition](Reply reply) { take(partition, std::move(reply)); });
  }
}

void HttpExchange::with_stats(std::function<void(std::string)> then) {
  gather_stats(context_,
               [weak = std::weak_ptr<bool>(alive_), then = std::move(then)](std::string json) {
                 if (!weak.expired()) then(std::move(json));
               });
}

void HttpExchange::end_waiting(std::size_t partition) {
  context_.partitions.end_waiting(partition, session_.id());
}

void HttpExchange::on_reply(std::size_t, std::uint64_t slot, Reply reply) {
  CARILLON_CHECK(slot >= first_slot_ && slot - first_slot_ < slots_.size(), "slot ", slot);
  const std::shared_ptr<void> kept = kept_;
  // Moved out, since the callback may ask for more and so move the vector.
  const OnReply callback = std::exchange(slots_[slot - first_slot_], nullptr);
  CARILLON_CHECK(callback != nullptr, "two replies to slot ", slot);
  callback(std::move(reply));
}

void HttpExchange::defer(std::function<void()> go_on) {
  CARILLON_CHECK(!deferred_, "deferred twice");
  deferred_ = std::move(go_on);
  session_.request_work();
}

void HttpExchange::run_deferred() { std::exchange(deferred_, nullptr)(); }

void HttpExchange::on_input_ended(std::function<void()> ended) {
  input_ended_ = std::move(ended);
  if (session_.input_has_ended() || context_.stopping || revoked_) input_ended();
}

bool HttpExchange::is_admin() const {
  return (context_.guard.roles_of(request_) & protocol::http::kAdminRole) != 0;
}

void HttpExchange::check_token() {
  if (destination_.route == nullptr) return;
  revoked_ = context_.guard.check(request_, destination_.route->roles);
  if (revoked_) input_ended();
}

void HttpExchange::input_ended() {
  if (input_ended_) std::exchange(input_ended_, nullptr)();
}

void HttpExchange::sent() {
  if (sent_) std::exchange(sent_, nullptr)();
}

// The response.

void HttpExchange::respond(HttpResponse response) {
  CARILLON_CHECK(!std::exchange(responded_, true), "two responses to one request");
  session_.send_response(std::move(response));
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): callers give it away.
void HttpExchange::respond(Problem problem) { respond(HttpSession::response_of(problem)); }

void HttpExchange::respond_json(int status, protocol::http::JsonWriter& json) {
  respond(HttpResponse{status, "application/json", json.take()});
}

void HttpExchange::begin_stream(std::string_view content_type) {
  CARILLON_CHECK(!std::exchange(responded_, true), "two responses to one request");
  session_.begin_stream(content_type);
}
void HttpExchange::stream(std::string_view bytes) { session_.stream(bytes); }
void HttpExchange::end_stream() { session_.end_stream(); }
std::size_t HttpExchange::unsent() const { return session_.unsent(); }

}  // namespace carillon::server
