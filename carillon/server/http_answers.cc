// SPDX-License-Identifier: Apache-2.0
// What workers say over HTTP of jobs they have: done, again, not like this, give me more time.

#include <memory>
#include <utility>
#include <vector>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_handlers.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using protocol::http::AnswerMembers;
using protocol::http::AnswerRequest;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ProblemKind;

/// Of a batch, so many jobs in one turn.
constexpr std::size_t kTurnAcks = 500;
/// Bytes of JSON for one of them, about.
constexpr std::size_t kResultSize = 40;

Problem stale_receipt(broker::JobId id) {
  return {
      ProblemKind::kStaleReceipt,
      "the time to run was over, or the job has been answered for, or the server was restarted; "
      "the job is somebody else's, or ready, or gone",
      "receipt", "of a reservation that lasts", id};
}

Command command_of(Verb verb, const AnswerRequest& request) {
  Command command;
  command.verb = verb;
  command.id = request.id;
  command.attempt = request.receipt.attempt;
  return command;
}

/// What the reply means, unless the job was answered for as asked.
std::optional<Problem> problem_of(const Reply& reply, broker::JobId id) {
  if (reply.answer == Answer::kNotFound) return stale_receipt(id);
  return failure_of(reply);
}

/// Reads the request that all these have, or responds.
std::optional<AnswerRequest> read_answer(HttpExchange& exchange, AnswerMembers members) {
  if (!exchange.expect_no_query()) return std::nullopt;
  const std::optional<broker::JobId> id = exchange.job_argument();
  if (!id) return std::nullopt;
  const auto values = exchange.json();
  if (!values) return std::nullopt;
  AnswerRequest request;
  request.id = *id;
  if (std::optional<Problem> problem = protocol::http::decode_answer(*values, members, request)) {
    exchange.respond(std::move(*problem));
    return std::nullopt;
  }
  if (request.receipt.epoch != exchange.context().epoch || request.receipt.attempt == 0) {
    exchange.respond(stale_receipt(*id));
    return std::nullopt;
  }
  return request;
}

/// Asks the desk, and responds with the job's id and the state it is in then.
void answer(HttpExchange& exchange, Command command) {
  const broker::JobId id = command.id;
  exchange.ask_desk(exchange.partition_of(id), std::move(command),
                    [&exchange, id](const Reply& reply) {
                      if (std::optional<Problem> problem = problem_of(reply, id)) {
                        return exchange.respond(std::move(*problem));
                      }
                      JsonWriter out;
                      out.begin_object();
                      out.id("id", id);
                      switch (reply.answer) {
                        case Answer::kDeleted: out.field("state", "deleted"); break;
                        case Answer::kReleased: out.field("state", "released"); break;
                        case Answer::kBuried: out.field("state", "buried"); break;
                        default: out.field("state", "reserved"); break;
                      }
                      out.end_object();
                      exchange.respond_json(200, out);
                    });
}

/// The broker sets the priority with these commands. If none is given it is to stay: so it is asked
/// for first.
void answer_with_priority(HttpExchange& exchange, Command command,
                          std::optional<std::uint32_t> priority) {
  if (priority) {
    command.priority = *priority;
    return answer(exchange, std::move(command));
  }
  Command get;
  get.verb = Verb::kGet;
  get.id = command.id;
  exchange.ask(exchange.partition_of(command.id), std::move(get),
               [&exchange, command = std::move(command)](const Reply& reply) mutable {
                 if (std::optional<Problem> problem = problem_of(reply, command.id)) {
                   return exchange.respond(std::move(*problem));
                 }
                 command.priority = std::get<broker::JobView>(*reply.detail).stats.priority;
                 answer(exchange, std::move(command));
               });
}

/// Many acks under way.
class AckBatch : public std::enable_shared_from_this<AckBatch> {
 public:
  AckBatch(HttpExchange& exchange, std::vector<AnswerRequest> requests)
      : exchange_(exchange), requests_(std::move(requests)), problems_(requests_.size()) {
    missing_ = requests_.size();
  }

  void ack_some() {
    const std::size_t until = std::min(requests_.size(), next_ + kTurnAcks);
    for (; next_ < until; ++next_) ack(next_);
    if (next_ < requests_.size()) {
      exchange_.defer([self = shared_from_this()] { self->ack_some(); });
    } else if (missing_ == 0) {
      finish();
    }
  }

 private:
  void ack(std::size_t index) {
    const AnswerRequest& request = requests_[index];
    if (request.receipt.epoch != exchange_.context().epoch || request.receipt.attempt == 0) {
      problems_[index] = std::make_unique<Problem>(stale_receipt(request.id));
      --missing_;
      return;
    }
    // No larger: std::function has room for it, and one more allocation a job shows.
    exchange_.ask_desk(exchange_.partition_of(request.id), command_of(Verb::kDelete, request),
                       [this, index](const Reply& reply) { on_reply(index, reply); });
  }

  void on_reply(std::size_t index, const Reply& reply) {
    if (std::optional<Problem> problem = problem_of(reply, requests_[index].id)) {
      problems_[index] = std::make_unique<Problem>(std::move(*problem));
    }
    if (--missing_ == 0 && next_ == requests_.size()) finish();
  }

  void finish() {
    if (std::exchange(finished_, true)) return;
    JsonWriter out;
    out.reserve(requests_.size() * kResultSize);
    out.begin_object();
    out.key("results");
    out.begin_array();
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      out.begin_object();
      out.field("status", problems_[i] == nullptr ? 200 : problems_[i]->status());
      out.id("id", requests_[i].id);
      if (problems_[i] != nullptr) {
        out.key("problem");
        protocol::http::write_problem(*problems_[i], out);
      }
      out.end_object();
    }
    out.end_array();
    out.end_object();
    exchange_.respond_json(200, out);
  }

  HttpExchange& exchange_;
  const std::vector<AnswerRequest> requests_;
  std::vector<std::unique_ptr<Problem>> problems_;  // Null: it went well.
  std::size_t next_ = 0;
  std::size_t missing_ = 0;
  bool finished_ = false;
};

}  // namespace

void ack_batch(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  std::vector<AnswerRequest> requests;
  if (std::optional<Problem> problem = protocol::http::decode_ack_batch(*values, requests)) {
    return exchange.respond(std::move(*problem));
  }
  const auto batch = std::make_shared<AckBatch>(exchange, std::move(requests));
  exchange.keep(batch);
  batch->ack_some();
}

void ack_job(HttpExchange& exchange) {
  const std::optional<AnswerRequest> request = read_answer(exchange, AnswerMembers::kReceipt);
  if (request) answer(exchange, command_of(Verb::kDelete, *request));
}

void release_job(HttpExchange& exchange) {
  const std::optional<AnswerRequest> request = read_answer(exchange, AnswerMembers::kAll);
  if (!request) return;
  Command command = command_of(Verb::kRelease, *request);
  command.use_backoff = !request->delay_ms;
  command.delay = std::chrono::milliseconds(request->delay_ms.value_or(0));
  answer_with_priority(exchange, std::move(command), request->priority);
}

void bury_job(HttpExchange& exchange) {
  const std::optional<AnswerRequest> request =
      read_answer(exchange, AnswerMembers::kReceiptAndPriority);
  if (!request) return;
  Command command = command_of(Verb::kBury, *request);
  answer_with_priority(exchange, std::move(command), request->priority);
}

void touch_job(HttpExchange& exchange) {
  const std::optional<AnswerRequest> request = read_answer(exchange, AnswerMembers::kReceiptAndTtr);
  if (!request) return;
  Command command = command_of(Verb::kTouch, *request);
  command.ttr = std::chrono::milliseconds(request->ttr_ms);
  answer(exchange, std::move(command));
}

}  // namespace carillon::server
