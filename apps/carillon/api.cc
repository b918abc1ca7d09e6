// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "carillon/protocol/http/base64.h"
#include "carillon/server/http_client.h"

namespace carillon::app {

using protocol::http::Value;
using protocol::http::ValueType;

// JsonView

const Value* JsonView::value() const noexcept {
  return document_ == nullptr ? nullptr : &document_->values()[at_];
}

JsonView JsonView::operator[](std::string_view name) const {
  const Value* self = value();
  if (self == nullptr || self->type != ValueType::kObject) return {};
  for (std::uint32_t at = self->first; at != Value::kNone; at = document_->values()[at].next) {
    if (document_->values()[at].name == name) return {document_, at};
  }
  return {};
}

std::vector<JsonView> JsonView::items() const {
  std::vector<JsonView> items;
  const Value* self = value();
  if (self == nullptr || self->type != ValueType::kArray) return items;
  for (std::uint32_t at = self->first; at != Value::kNone; at = document_->values()[at].next) {
    items.push_back({document_, at});
  }
  return items;
}

std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  std::vector<std::pair<std::string, JsonView>> members;
  const Value* self = value();
  if (self == nullptr || self->type != ValueType::kObject) return members;
  for (std::uint32_t at = self->first; at != Value::kNone; at = document_->values()[at].next) {
    members.emplace_back(std::string(document_->values()[at].name), JsonView(document_, at));
  }
  return members;
}

bool JsonView::is_object() const noexcept {
  return value() != nullptr && value()->type == ValueType::kObject;
}

std::int64_t JsonView::number() const noexcept {
  const Value* self = value();
  return self != nullptr && self->type == ValueType::kInteger ? self->integer : 0;
}

bool JsonView::flag() const noexcept {
  return value() != nullptr && value()->type == ValueType::kFlag && value()->flag;
}

std::string JsonView::text() const {
  const Value* self = value();
  if (self == nullptr) return {};
  switch (self->type) {
    case ValueType::kText: return std::string(self->text);
    case ValueType::kInteger: return std::to_string(self->integer);
    case ValueType::kUnsigned: return std::to_string(static_cast<std::uint64_t>(self->integer));
    case ValueType::kFlag: return self->flag ? "true" : "false";
    default: return {};
  }
}

std::string JsonView::json() const {
  const Value* self = value();
  if (self == nullptr) return "null";
  switch (self->type) {
    case ValueType::kText: {
      const bool id = self->name == "id" || self->name == "last_job";
      return id ? std::string(self->text) : json_string(self->text);
    }
    case ValueType::kObject: {
      JsonLine object;
      for (const auto& [name, member] : members()) object.raw(name, member.json());
      return object.str();
    }
    case ValueType::kArray: {
      std::string list = "[";
      for (const JsonView& item : items()) list.append(list.size() > 1 ? "," : "") += item.json();
      return list += ']';
    }
    case ValueType::kInteger:
    case ValueType::kUnsigned:
    case ValueType::kFlag: return text();
    default: return "null";
  }
}

// Api

Api::Api(const Target& target)
    : at_(http_address_of(target)),
      tls_(tls_of(target, at_)),
      token_(token_of(target)),
      patience_(target.patience()) {}

ApiAnswer Api::call(std::string_view method, const std::string& path, const std::string& json,
                    Span extra) const {
  server::HttpCall call;
  call.method = method;
  call.target = path;
  call.body = json;
  call.token = token_;
  const Result<server::HttpAnswer> answered =
      server::ask_http(at_.at, patience_ + extra, call, tls_.get());
  if (!answered) {
    std::string message = answered.error().message;
    // Who cannot connect says to where.
    const std::string at = at_.at.to_string();
    if (!message.starts_with(at)) message = at + ": " + message;
    throw Failure{kServerError, "HTTP API at " + message + hint_for(message, "--http")};
  }
  ApiAnswer answer;
  answer.status = answered->status;
  const bool is_json = answered->content_type.starts_with("application/json") ||
                       answered->content_type.starts_with("application/problem+json");
  if (is_json && !answered->body.empty()) {
    auto document = std::make_shared<protocol::http::JsonDocument>();
    if (const std::optional<std::string> wrong = document->parse(answered->body)) {
      throw Failure{kServerError, "the server answered nonsense: " + *wrong};
    }
    answer.json = JsonView(std::move(document));
  }
  const bool is_problem = !problem_name(answer).empty();
  if ((answer.status < 200 || answer.status > 299) ? !is_problem
                                                   : !is_json && answer.status != 204) {
    throw Failure{kServerError,
                  fmt::format("{} answers {} {} with {}, which is no HTTP API of carillon",
                              at_.to_string(true), method, path, answer.status)};
  }
  return answer;
}

ApiAnswer Api::ask(std::string_view method, const std::string& path, const std::string& json,
                   Span extra) const {
  ApiAnswer answer = call(method, path, json, extra);
  if (answer.status >= 300) throw failure_of(answer);
  return answer;
}

ApiAnswer Api::try_to(std::string_view method, const std::string& path,
                      const std::string& json) const {
  ApiAnswer answer = call(method, path, json, {});
  if (answer.status >= 300 && answer.status != 404 && answer.status != 409) {
    throw failure_of(answer);
  }
  return answer;
}

namespace {

/// What the command line calls a member of the API: --delay for delay_ms.
std::string option_of(std::string field) {
  if (field == "receipt") return "RECEIPT";
  if (field == "spec" || field == "cron") return "SPEC";
  if (field == "name") return "NAME";
  if (field == "body" || field == "body_base64") return "BODY";
  if (field == "backoff.base_ms") return "--backoff";
  if (field == "Authorization") return "--token-file";
  if (field == "Host") return "--http";
  if (field.ends_with("_ms")) field.resize(field.size() - 3);
  std::replace(field.begin(), field.end(), '_', '-');
  std::replace(field.begin(), field.end(), '.', '-');
  return "--" + field;
}

/// What the API says to programs, for somebody at a terminal: what it means here, and what can be
/// done. Empty: the words of the API do.
std::string words_of(const ApiAnswer& problem, const std::string& field) {
  const std::string name = problem_name(problem);
  const std::string detail = problem.json["detail"].text();
  if (name == "stale-receipt") {
    return "RECEIPT: the reservation is over, and nothing was changed: its TTR passed, it was "
           "answered before, or the server was started anew. reserve --receipt takes a job anew";
  }
  if (name == "no-such-job") {
    return "there is no such job: it was deleted, or never put. carillon search lists jobs";
  }
  if (name == "no-such-tube") {
    return "--tube: there is no such tube: none of its jobs, workers or settings is left. "
           "carillon ls lists those that are there";
  }
  if (name == "no-such-resource" && field == "name") {
    return "NAME: there is no such schedule. carillon schedule ls lists those that are there";
  }
  if (name == "job-reserved") {
    return "a worker has the job; it can be changed when its reservation is over. carillon show "
           "says when that is";
  }
  if (name == "key-exists") {
    return "--key: a job of this tube has the key already. --on-conflict says what to do then";
  }
  if (name == "unauthorized") {
    return fmt::format("--token-file: {}. The server lets nobody in without a token that it knows",
                       detail);
  }
  if (name == "forbidden" && field == "Authorization") {
    return fmt::format("--token-file: the token is not for this: {}, and this is for {}", detail,
                       problem.json["limit"].text());
  }
  if (name == "draining") {
    return fmt::format(
        "the server takes no more jobs: {}. Try again when it has been started "
        "anew, or another one",
        detail);
  }
  if (name == "no-room") {
    const std::string limit = problem.json["limit"].text();
    return fmt::format(
        "the server has no room for more: {}{}{}. Its log and carillon stats say more", detail,
        limit.empty() ? "" : "; the limit is ", limit);
  }
  if (name == "tube-full") {
    return "--tube: the tube has as many jobs as its max_jobs allows. Try again when some are "
           "done";
  }
  if (name == "unavailable") {
    return fmt::format(
        "the server cannot use its store at present{}{}. Its log says why; it goes "
        "on by itself when it can",
        detail.empty() ? "" : ": ", detail);
  }
  return {};
}

}  // namespace

Failure failure_of(const ApiAnswer& problem) {
  const JsonView field = problem.json["field"];
  std::string message = words_of(problem, field.text());
  if (message.empty()) {
    if (field.exists()) message += option_of(field.text()) + ": ";
    message += problem.json["title"].text();
    if (const JsonView detail = problem.json["detail"]; detail.exists()) {
      message += ": " + detail.text();
    }
    if (const JsonView limit = problem.json["limit"]; limit.exists()) {
      message += "; expected: " + limit.text();
    }
  }
  ExitStatus status = kServerError;
  if (problem.status == 404 || problem.status == 409) status = kNotFound;
  if (problem.status == 400 || problem.status == 413 || problem.status == 422) status = kUsage;
  return {status, std::move(message)};
}

std::string problem_name(const ApiAnswer& problem) {
  constexpr std::string_view kPrefix = "urn:carillon:problem:";
  const std::string type = problem.json["type"].text();
  return type.starts_with(kPrefix) ? type.substr(kPrefix.size()) : std::string();
}

std::string tube_path(const std::string& tube) {
  return "/api/v1/tubes/" + server::url_encoded(tube);
}

std::string body_of(const JsonView& job) {
  if (const JsonView body = job["body"]; body.exists()) return body.text();
  std::optional<std::string> bytes = protocol::http::from_base64(job["body_base64"].text());
  if (!bytes) throw Failure{kServerError, "the server answered nonsense: a body is not base64"};
  return std::move(*bytes);
}

namespace {

void flatten(const JsonView& object, const std::string& prefix, Fields& lines) {
  for (const auto& [name, value] : object.members()) {
    if (value.is_object()) {
      flatten(value, prefix + name + ".", lines);
    } else if (name != "body" && name != "body_base64") {
      lines.emplace_back(prefix + name, value.text());
    }
  }
}

}  // namespace

void print_members(const JsonView& object) {
  Fields lines;
  flatten(object, {}, lines);
  std::size_t width = 0;
  for (const auto& [name, value] : lines) width = std::max(width, name.size());
  for (const auto& [name, value] : lines) fmt::print("{:<{}}  {}\n", name, width, value);
}

// Options of several verbs.

void JobNames::add_to(CLI::App& app, const char* what, std::size_t most) {
  // Text, read by number_of().
  CLI::Option* id = app.add_option("ID", ids, what)->type_name("");
  if (most == 1) id->expected(1);
  app.add_option("-t,--tube", tube, "Tube of --key")->capture_default_str()->excludes(id);
  CLI::Option* key =
      app.add_option("-k,--key", keys,
                     most == 1 ? "Or its key in the tube" : "Or a key in the tube; may be repeated")
          ->type_name("KEY")
          ->excludes(id);
  if (most == 1) {
    key->expected(1);
  } else {
    key->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
  }
}

std::vector<JobNames::Named> JobNames::all() const {
  if (ids.empty() && keys.empty()) throw Failure{kUsage, "ID or --key is required"};
  std::vector<Named> named;
  for (const std::string& word : ids) {
    const std::string id = std::to_string(number_of(word, "ID"));
    named.push_back({"/api/v1/jobs/" + id, id, "job " + id});
  }
  if (!keys.empty()) check_tube(tube);
  for (const std::string& key : keys) {
    check_key(key, "--key");
    named.push_back({tube_path(tube) + "/keys/" + server::url_encoded(key), json_string(key),
                     fmt::format("key {} in tube {}", key, tube)});
  }
  return named;
}

void Attempts::add_to(CLI::App& app) {
  app.add_option("--max-attempts", most, "Bury it after so many attempts that did not finish it")
      ->type_name("N");
  CLI::Option* backoff =
      app.add_option("--backoff", base,
                     "After an attempt that failed it waits this long, then twice as long, ...")
          ->type_name("TIME");
  app.add_option("--backoff-cap", cap, "But at most this long [1h, or --backoff if it is more]")
      ->type_name("TIME")
      ->needs(backoff);
  app.add_flag("--backoff-jitter", jitter, "Any time up to that, at random")->needs(backoff);
}

bool Attempts::said() const noexcept { return !most.empty() || !base.empty(); }

void Attempts::write(JsonLine& job) const {
  constexpr std::uint64_t kMostAttempts = 1'000'000;
  if (!most.empty()) {
    const std::uint64_t number = number_of(most, "--max-attempts", kMostAttempts);
    if (number == 0) throw Failure{kUsage, "--max-attempts: 0 is out of range (1 to 1000000)"};
    job.number("max_attempts", number);
  }
  if (base.empty()) return;
  JsonLine backoff;
  backoff.number("base_ms", wire_ms(base, "--backoff", kMostSeconds, 1));
  if (!cap.empty()) backoff.number("cap_ms", wire_ms(cap, "--backoff-cap", kMostSeconds, 1));
  if (jitter) backoff.flag("jitter", true);
  job.raw("backoff", backoff.str());
}

}  // namespace carillon::app
