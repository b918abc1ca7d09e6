// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/server/http_assets.h"
#include "carillon/server/http_events.h"

namespace carillon::server {
namespace {

using protocol::http::Destination;
using protocol::http::Method;
using protocol::http::Problem;
using protocol::http::ProblemKind;

/// A body of a request that is refused is read over up to this size, so that the connection lives.
constexpr std::uint64_t kReadOver = std::uint64_t{64} << 10;

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {201, "Created"},
    {204, "No Content"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

std::string_view reason_of(int status) noexcept {
  const auto* found = std::find_if(std::begin(kReasons), std::end(kReasons),
                                   [&](const Reason& reason) { return reason.status == status; });
  return found == std::end(kReasons) ? "Unknown" : found->text;
}

}  // namespace

HttpSession::HttpSession(broker::SessionId id, HttpContext& context, OutputBuffer& output,
                         std::function<void()> request_work)
    : id_(id),
      context_(context),
      output_(output),
      request_work_(std::move(request_work)),
      reader_(context.limits.max_header) {
  context_.partitions.open_session(id_);
}

HttpSession::~HttpSession() {
  context_.events.unsubscribe(id_);
  exchange_.reset();
  release_body();
  context_.partitions.close_session(id_);
}

// Input.

void HttpSession::receive(std::string_view bytes) {
  if (closing_) return;
  if (kept_size() == 0 && exchange_ == nullptr) {
    parse(bytes);
    if (closing_ || bytes.empty()) return;
    kept_.assign(bytes);
    kept_from_ = 0;
    return;
  }
  kept_.erase(0, std::exchange(kept_from_, 0));
  kept_ += bytes;
  needs_more_ = false;
  if (exchange_ == nullptr) parse_kept();
}

void HttpSession::parse_kept() {
  std::string_view left = std::string_view(kept_).substr(kept_from_);
  parse(left);
  kept_from_ = kept_.size() - left.size();
  if (left.empty() || closing_) {
    std::string().swap(kept_);
    kept_from_ = 0;
  }
}

void HttpSession::end_input() {
  if (std::exchange(input_ended_, true)) return;
  if (exchange_ != nullptr) {
    exchange_->input_ended();
  } else if (!can_resume()) {
    closing_ = true;  // Half a request is none.
  }
}

void HttpSession::check_token() {
  if (exchange_ != nullptr) exchange_->check_token();
}

void HttpSession::stop() {
  if (exchange_ != nullptr) {
    exchange_->input_ended();
  } else if (phase() == Phase::kIdle) {
    closing_ = true;
  }
}

bool HttpSession::exchange_is_over() const noexcept {
  return exchange_ != nullptr && exchange_->has_responded() && !streaming_ &&
         !exchange_->awaits_sending();
}

bool HttpSession::can_resume() const noexcept {
  if (exchange_ != nullptr) return exchange_->has_deferred() || exchange_is_over();
  return kept_size() > 0 && !needs_more_ && !closing_ &&
         output_.size() < context_.limits.max_unsent;  // Else it does not read what it asks for.
}

void HttpSession::resume() {
  if (exchange_ != nullptr && exchange_->has_deferred()) exchange_->run_deferred();
  if (exchange_is_over()) {
    exchange_.reset();
    release_body();
    if (!keep_alive_) closing_ = true;
  }
  if (exchange_ != nullptr || closing_) return;
  if (can_resume()) parse_kept();
  if (exchange_ == nullptr && input_ended_ && !can_resume()) closing_ = true;
}

bool HttpSession::wants_input() const noexcept {
  if (input_ended_ || closing_) return false;
  if (exchange_ != nullptr) return kept_size() < kReadAhead;
  return output_.size() < context_.limits.max_unsent;
}

void HttpSession::parse(std::string_view& bytes) {
  using Event = HttpRequestReader::Event;
  needs_more_ = false;
  for (;;) {
    const Event event = reader_.read(bytes);
    if (event != Event::kRefused && event != Event::kHead && !count_body()) return;
    switch (event) {
      case Event::kNeedMore: needs_more_ = true; return;
      case Event::kHead:
        if (!on_head()) return;
        if (bytes.empty() && !reader_.request().expect.empty() && reader_.request().has_body) {
          output_.text() += "HTTP/1.1 100 Continue\r\n\r\n";
        }
        break;
      case Event::kComplete: on_complete(); return;
      case Event::kRefused:
        is_head_ = reader_.has_head() && reader_.request().is_head();
        refuse_and_close(reader_.problem());
        return;
    }
  }
}

/// False: it has been refused, and nothing more is read.
bool HttpSession::on_head() {
  ++requests_;
  ++context_.requests;
  const HttpRequest& request = reader_.request();
  is_head_ = request.is_head();
  is_http_1_1_ = request.is_http_1_1;
  keep_alive_ = request.keep_alive && !context_.stopping &&
                (context_.limits.max_requests == 0 || requests_ < context_.limits.max_requests);
  allowed_.clear();
  std::uint64_t body_limit = kReadOver;
  refused_ = check_head(body_limit);
  if (refused_ != nullptr &&
      (request.chunked || request.content_length > kReadOver || !request.expect.empty())) {
    refuse_and_close(*std::exchange(refused_, nullptr));
    return false;
  }
  reader_.allow_body(body_limit);
  return true;
}

/// What stands against a request of which the head is known; nothing: it may go on with so large a
/// body.
std::unique_ptr<Problem> HttpSession::check_head(std::uint64_t& body_limit) {
  const HttpRequest& request = reader_.request();
  const auto& segments = request.target.segments();
  const std::optional<Method> method = protocol::http::parse_method(request.method);
  Destination destination;
  if (method) {
    destination = protocol::http::find_route(*method, segments);
  } else {
    destination.allowed = protocol::http::allowed_methods(segments);
  }
  const bool is_asset = destination.route == nullptr && find_asset(request.target.path());
  const protocol::http::Roles roles =
      destination.route == nullptr ? protocol::http::kPublic : destination.route->roles;
  guard_changes_ = context_.guard.changes();
  if (std::optional<Problem> problem = context_.guard.check(request, roles)) {
    if (problem->kind == ProblemKind::kUnauthorized && !request.authorization.empty()) {
      context_.on_failed_login(id_);
    }
    return std::make_unique<Problem>(std::move(*problem));
  }
  if (destination.route == nullptr && !(is_asset && method == Method::kGet)) {
    allowed_ = is_asset ? "GET, HEAD" : destination.allowed;
    if (allowed_.empty()) {
      return std::make_unique<Problem>(
          Problem{ProblemKind::kNoSuchResource, "see /openapi.json for what there is"});
    }
    return std::make_unique<Problem>(
        Problem{ProblemKind::kMethodNotAllowed, "the path has other methods", "method", allowed_});
  }
  const HttpLimits& limits = context_.limits;
  if (request.content_length > limits.max_body) {
    return std::make_unique<Problem>(
        Problem{ProblemKind::kTooLarge, fmt::format("it has {} bytes", request.content_length),
                "body", fmt::format("http-max-body is {}", limits.max_body)});
  }
  if (request.content_length > room_for_bodies()) return std::make_unique<Problem>(no_room());
  body_limit = limits.max_body;
  return nullptr;
}

std::size_t HttpSession::room_for_bodies() const {
  const std::size_t most = context_.limits.max_bodies;
  return most - std::min(context_.bodies, most);
}

Problem HttpSession::no_room() const {
  Problem problem{ProblemKind::kOverloaded, "the bodies of other requests take all the memory"};
  problem.limit = fmt::format("http-max-bodies is {}", context_.limits.max_bodies);
  problem.retry_after_s = 1;
  return problem;
}

/// Counts what has come of the body: what was only announced takes no room from others. False:
/// there is none, and it has been refused.
bool HttpSession::count_body() {
  if (refused_ != nullptr || !reader_.has_head()) return true;
  const std::size_t size = std::max(reader_.body_size(), reader_.request().body.size());
  const std::size_t more = size - std::min(size, body_reserved_);
  if (more > room_for_bodies()) {
    refuse_and_close(no_room());
    return false;
  }
  body_reserved_ += more;
  context_.bodies += more;
  return true;
}

void HttpSession::on_complete() {
  exchange_ = std::make_unique<HttpExchange>(*this, context_, std::exchange(reader_.request(), {}));
  reader_.next();
  if (refused_ != nullptr) {
    const std::unique_ptr<Problem> problem = std::exchange(refused_, nullptr);
    exchange_->respond(*problem);
    return;
  }
  const HttpRequest& request = exchange_->request();
  Destination destination = protocol::http::find_route(
      *protocol::http::parse_method(request.method), request.target.segments());
  if (destination.route == nullptr) {
    exchange_->respond(asset_response(*find_asset(request.target.path()), request));
    return;
  }
  if (guard_changes_ != context_.guard.changes()) {  // While the body came.
    if (std::optional<Problem> problem = context_.guard.check(request, destination.route->roles)) {
      exchange_->respond(std::move(*problem));
      return;
    }
  }
  exchange_->start(std::move(destination));
}

void HttpSession::refuse_and_close(const Problem& problem) {
  keep_alive_ = false;
  send_response(response_of(problem));
  closing_ = true;
}

void HttpSession::release_body() { context_.bodies -= std::exchange(body_reserved_, 0); }

// Answers.

void HttpSession::on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply) {
  // An exchange that has its response is not interested in what it asked for besides.
  if (exchange_ != nullptr && exchange_->knows_slot(slot)) {
    exchange_->on_reply(partition, slot, std::move(reply));
  }
}

void HttpSession::on_output_sent() {
  if (!awaits_sending()) return;
  exchange_->sent();
  request_work_();
}

HttpSession::Phase HttpSession::phase() const noexcept {
  if (closing_) return Phase::kFinished;
  if (exchange_ != nullptr || (kept_size() > 0 && !needs_more_)) return Phase::kAnswering;
  if (reader_.has_head()) return Phase::kBody;
  return reader_.has_begun() || kept_size() > 0 ? Phase::kHead : Phase::kIdle;
}

void HttpSession::time_out() {
  const Phase late = phase();
  if (late == Phase::kHead || late == Phase::kBody) {
    refuse_and_close(
        {ProblemKind::kTimeout,
         late == Phase::kHead ? "the header did not come in time" : "the body did not come in time",
         {},
         late == Phase::kHead ? "http-header-timeout" : "http-body-timeout"});
  }
  closing_ = true;
}

HttpResponse HttpSession::response_of(const Problem& problem) {
  HttpResponse response;
  response.status = problem.status();
  response.content_type = protocol::http::kProblemContentType;
  response.body = protocol::http::to_json(problem);
  if (problem.kind == ProblemKind::kUnauthorized) {
    response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"carillon\"");
  }
  if (problem.retry_after_s > 0) {
    response.headers.emplace_back("Retry-After", std::to_string(problem.retry_after_s));
  }
  return response;
}

void HttpSession::write_head(const HttpResponse& response, std::size_t size) {
  std::string& out = output_.text();
  fmt::format_to(std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status,
                 reason_of(response.status));
  if (!response.content_type.empty()) {
    fmt::format_to(std::back_inserter(out), "Content-Type: {}\r\n", response.content_type);
  }
  bool has_cache_control = false;
  for (const auto& [name, value] : response.headers) {
    has_cache_control = has_cache_control || name == "Cache-Control";
    fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
  }
  if (!allowed_.empty() && response.status == 405) {
    fmt::format_to(std::back_inserter(out), "Allow: {}\r\n", allowed_);
  }
  if (!has_cache_control) out += "Cache-Control: no-store\r\n";
  out += "X-Content-Type-Options: nosniff\r\n";
  if (!streaming_ && response.status != 204 && response.status != 304) {
    fmt::format_to(std::back_inserter(out), "Content-Length: {}\r\n", size);
  }
  if (!keep_alive_) {
    out += "Connection: close\r\n";
  } else if (!is_http_1_1_) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
}

void HttpSession::send_response(HttpResponse response) {
  if (context_.stopping) keep_alive_ = false;
  write_head(response, response.body.size() + response.job_body.size());
  if (!is_head_) {
    output_.text() += response.body;
    if (response.job_body) output_.append_body(std::move(response.job_body));
  }
  request_work_();
}

void HttpSession::begin_stream(std::string_view content_type) {
  // Its end is that of the connection: nothing to frame, and any client can read it.
  keep_alive_ = false;
  streaming_ = true;
  write_head({200, std::string(content_type)}, 0);
  if (is_head_) streaming_ = false;
  request_work_();
}

void HttpSession::stream(std::string_view bytes) {
  if (!streaming_) return;
  output_.text() += bytes;
  request_work_();
}

void HttpSession::end_stream() {
  streaming_ = false;
  request_work_();
}

}  // namespace carillon::server
