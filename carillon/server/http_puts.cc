// SPDX-License-Identifier: Apache-2.0
// Putting jobs over HTTP, one or many.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/protocol/http/query.h"
#include "carillon/server/http_handlers.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using protocol::http::JsonDocument;
using protocol::http::JsonWriter;
using protocol::http::kMaxBatch;
using protocol::http::Problem;
using protocol::http::ProblemKind;
using protocol::http::PutRequest;
using protocol::http::Value;

/// Jobs of a batch that are put in one turn, so that a large one does not keep the others waiting.
constexpr std::size_t kTurnPuts = 500;
/// Bytes of JSON for one that was put, about.
constexpr std::size_t kResultSize = 40;

Command put_command(PutRequest& request, std::string_view tube) {
  Command command;
  command.verb = broker::Verb::kPut;
  command.tube = tube;
  command.priority = request.priority;
  command.delay = std::chrono::milliseconds(request.delay_ms);
  command.ttr = std::chrono::milliseconds(request.ttr_ms);
  command.body = std::move(request.body);
  command.on_conflict = request.on_conflict;
  if (!request.extras.empty()) {
    command.extras = std::make_shared<const broker::JobExtras>(std::move(request.extras));
  }
  return command;
}

/// What became of one put.
struct PutResult {
  int status = 0;
  broker::JobId id = 0;
  bool replaced = false;
  std::unique_ptr<Problem> problem = nullptr;
};

PutResult refusal(Problem problem) {
  return {problem.status(), 0, false, std::make_unique<Problem>(std::move(problem))};
}

PutResult result_of(const Reply& reply, broker::OnConflict on_conflict) {
  switch (reply.answer) {
    case Answer::kInserted: return {201, reply.id, reply.count > 0};
    case Answer::kExists: return {200, reply.id};
    case Answer::kConflict:
      if (on_conflict == broker::OnConflict::kReplace) {
        return refusal({ProblemKind::kJobReserved,
                        "the job to be replaced is being worked on",
                        "key",
                        {},
                        reply.id});
      }
      return refusal({ProblemKind::kKeyExists, "nothing was put", "key", {}, reply.id});
    case Answer::kTubeFull: {
      Problem problem{
          ProblemKind::kTubeFull, "nothing was put", {}, "max_jobs of the settings of the tube"};
      problem.retry_after_s = 5;
      return refusal(std::move(problem));
    }
    default: break;
  }
  std::optional<Problem> problem = failure_of(reply);
  return refusal(problem ? std::move(*problem)
                         : Problem{ProblemKind::kInternal, "the put had no such answer"});
}

void write_id(const PutResult& result, JsonWriter& out) {
  out.id("id", result.id);
  if (result.status == 200) out.field("existing", true);
  if (result.replaced) out.field("replaced", true);
}

void write_result(const PutResult& result, JsonWriter& out) {
  out.begin_object();
  out.field("status", result.status);
  if (result.problem == nullptr) {
    write_id(result, out);
  } else {
    out.key("problem");
    protocol::http::write_problem(*result.problem, out);
  }
  out.end_object();
}

/// A batch under way. Its items are decoded and put piece by piece.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  Batch(HttpExchange& exchange, std::string_view tube)
      : exchange_(exchange), tube_(tube), partition_(exchange.partition_of(tube)) {}

  /// The elements of a JSON array.
  void begin(std::span<const Value> values) {
    values_ = values;
    for (std::uint32_t i = values[0].first; i != Value::kNone; i = values[i].next) {
      places_.push_back(i);
    }
    begin(places_.size());
  }
  /// The lines of NDJSON.
  void begin_lines(std::string_view text) {
    is_lines_ = true;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) lines_.push_back(line);
      if (lines_.size() > kMaxBatch) break;
    }
    begin(lines_.size());
  }

 private:
  void begin(std::size_t count) {
    if (count == 0 || count > kMaxBatch) {
      exchange_.respond(Problem{count == 0 ? ProblemKind::kInvalidField : ProblemKind::kTooLarge,
                                count == 0 ? "there is no job" : "there are more jobs", "body",
                                fmt::format("1 to {} jobs", kMaxBatch)});
      return;
    }
    results_.resize(count);
    missing_ = count;
    put_some();
  }

  void put_some() {
    const std::size_t until = std::min(results_.size(), next_ + kTurnPuts);
    for (; next_ < until; ++next_) put(next_);
    if (next_ < results_.size()) {
      exchange_.defer([self = shared_from_this()] { self->put_some(); });
    } else if (missing_ == 0) {
      finish();
    }
  }

  void put(std::size_t index) {
    PutRequest request;
    if (std::optional<Problem> problem = decode(index, request)) {
      results_[index] = refusal(std::move(*problem));
      --missing_;
      return;
    }
    const auto place = static_cast<std::uint32_t>(index);
    const broker::OnConflict on_conflict = request.on_conflict;
    // No larger: std::function has room for it, and one more allocation a job shows.
    exchange_.ask(partition_, put_command(request, tube_),
                  [this, place, on_conflict](const Reply& reply) {
                    results_[place] = result_of(reply, on_conflict);
                    if (--missing_ == 0 && next_ == results_.size()) finish();
                  });
  }

  std::optional<Problem> decode(std::size_t index, PutRequest& request) {
    const std::size_t max_job_size = exchange_.context().limits.max_job_size;
    const std::string path = "jobs[" + std::to_string(index) + "]";
    if (!is_lines_) {
      return protocol::http::decode_put(values_, places_[index], path, max_job_size, request);
    }
    if (std::optional<std::string> wrong = line_.parse(lines_[index])) {
      return Problem{ProblemKind::kMalformedJson, std::move(*wrong), path};
    }
    return protocol::http::decode_put(line_.values(), 0, path, max_job_size, request);
  }

  void finish() {
    if (std::exchange(finished_, true)) return;
    HttpResponse response;
    response.content_type = is_lines_ ? "application/x-ndjson" : "application/json";
    JsonWriter out;
    out.reserve(results_.size() * kResultSize);
    if (is_lines_) {
      for (const PutResult& result : results_) {
        write_result(result, out);
        out.end_line();
      }
    } else {
      out.begin_object();
      out.key("results");
      out.begin_array();
      for (const PutResult& result : results_) write_result(result, out);
      out.end_array();
      out.end_object();
    }
    response.body = out.take();
    exchange_.respond(std::move(response));
  }

  HttpExchange& exchange_;
  const std::string tube_;
  const std::size_t partition_;
  std::span<const Value> values_;
  std::vector<std::uint32_t> places_;  // Of values_.
  bool is_lines_ = false;
  std::vector<std::string_view> lines_;
  JsonDocument line_;
  std::vector<PutResult> results_;
  std::size_t next_ = 0;     // To be put.
  std::size_t missing_ = 0;  // Results that are not there yet.
  bool finished_ = false;
};

}  // namespace

void put_job(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube) return;
  if (exchange.context().draining) return exchange.respond(is_draining());
  const std::size_t max_job_size = exchange.context().limits.max_job_size;
  PutRequest request;
  std::optional<Problem> problem;
  if (exchange.has_content_type("application/x-www-form-urlencoded")) {
    // What curl sends unless told otherwise, of JSON too: taken as it is, that would be a job
    // without its delay.
    return exchange.respond(
        Problem{ProblemKind::kUnsupportedMediaType,
                "this takes no forms, which is what curl says it sends: for a JSON object say "
                "application/json; for a body as it is, another type, such as text/plain",
                "Content-Type", "any but application/x-www-form-urlencoded"});
  }
  if (exchange.has_content_type("application/json")) {
    if (!exchange.expect_no_query()) return;
    const auto values = exchange.json();
    if (!values) return;
    problem = protocol::http::decode_put(*values, 0, {}, max_job_size, request);
  } else {
    problem =
        protocol::http::decode_raw_put(exchange.query(), exchange.request().body,
                                       exchange.request().content_type, max_job_size, request);
  }
  if (problem) return exchange.respond(std::move(*problem));
  const broker::OnConflict on_conflict = request.on_conflict;
  exchange.ask(exchange.partition_of(*tube), put_command(request, *tube),
               [&exchange, on_conflict](const Reply& reply) {
                 const PutResult result = result_of(reply, on_conflict);
                 if (result.problem != nullptr) return exchange.respond(*result.problem);
                 JsonWriter out;
                 out.begin_object();
                 write_id(result, out);
                 out.end_object();
                 HttpResponse response{result.status, "application/json", out.take()};
                 response.headers.emplace_back("Location",
                                               "/api/v1/jobs/" + std::to_string(result.id));
                 exchange.respond(std::move(response));
               });
}

void put_batch(HttpExchange& exchange) {
  const std::optional<std::string_view> tube = exchange.tube_argument();
  if (!tube || !exchange.expect_no_query()) return;
  if (exchange.context().draining) return exchange.respond(is_draining());
  auto batch = std::make_shared<Batch>(exchange, *tube);
  exchange.keep(batch);
  if (exchange.has_content_type("application/x-ndjson") ||
      exchange.has_content_type("application/jsonl")) {
    batch->begin_lines(exchange.request().body);
    return;
  }
  if (!exchange.has_content_type("application/json")) {
    return exchange.respond(Problem{ProblemKind::kUnsupportedMediaType,
                                    "this takes a JSON array, or NDJSON", "Content-Type",
                                    "application/json or application/x-ndjson"});
  }
  const auto values = exchange.json();
  if (!values) return;
  if (values->front().type != protocol::http::ValueType::kArray) {
    return exchange.respond(
        Problem{ProblemKind::kInvalidField, "is not an array", "body", "an array of jobs"});
  }
  batch->begin(*values);
}

}  // namespace carillon::server
