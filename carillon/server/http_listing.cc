// SPDX-License-Identifier: Apache-2.0
// Listing jobs over HTTP, page by page: those of a tube, or all, a partition after the other.

#include <memory>
#include <utility>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_job_json.h"

namespace carillon::server {
namespace {

using broker::Command;
using broker::Reply;
using protocol::http::JsonWriter;
using protocol::http::ListRequest;
using protocol::http::Problem;
using protocol::http::ProblemKind;

/// One page under way.
class Page : public std::enable_shared_from_this<Page> {
 public:
  Page(HttpExchange& exchange, std::string_view tube, ListRequest request)
      : exchange_(exchange),
        tube_(tube),
        request_(std::move(request)),
        left_(request_.query.limit) {
    if (!tube_.empty()) request_.partition = exchange_.partition_of(tube_);
    out_.begin_object();
    out_.key("jobs");
    out_.begin_array();
  }

  void ask() {
    broker::CommandOptions options;
    options.list = request_.query;
    options.list.limit = left_;
    Command command;
    command.verb = broker::Verb::kList;
    command.tube = tube_;
    command.options = std::make_shared<const broker::CommandOptions>(std::move(options));
    exchange_.ask(request_.partition, std::move(command),
                  [self = shared_from_this()](const Reply& reply) { self->on_reply(reply); });
  }

 private:
  void on_reply(const Reply& reply) {
    if (reply.answer == broker::Answer::kNotFound) return finish(std::nullopt);
    if (std::optional<Problem> problem = failure_of(reply)) {
      return exchange_.respond(std::move(*problem));
    }
    const auto& page = std::get<broker::JobPage>(*reply.detail);
    for (const broker::JobView& job : page.jobs) write_job(job, nullptr, out_);
    left_ -= std::min(left_, page.jobs.size());
    if (page.next) {
      return finish(protocol::http::to_cursor(request_.partition, *page.next));
    }
    const std::size_t next = request_.partition + 1;
    if (!tube_.empty() || next == exchange_.context().partitions.count()) {
      return finish(std::nullopt);
    }
    request_.query.after = {};
    if (left_ == 0) return finish(protocol::http::to_cursor(next, {}));
    request_.partition = next;
    exchange_.defer([self = shared_from_this()] { self->ask(); });
  }

  void finish(const std::optional<std::string>& cursor) {
    out_.end_array();
    if (cursor) out_.field("next", *cursor);
    out_.end_object();
    exchange_.respond_json(200, out_);
  }

  HttpExchange& exchange_;
  const std::string tube_;
  ListRequest request_;
  std::size_t left_;
  JsonWriter out_;
};

}  // namespace

void list_jobs(HttpExchange& exchange) {
  std::string_view tube;
  if (!exchange.destination().arguments.empty()) {
    const std::optional<std::string_view> named = exchange.tube_argument();
    if (!named) return;
    tube = *named;
  }
  ListRequest request;
  if (std::optional<Problem> problem = protocol::http::decode_list(
          exchange.query(), exchange.context().partitions.count(), request)) {
    return exchange.respond(std::move(*problem));
  }
  std::make_shared<Page>(exchange, tube, std::move(request))->ask();
}

}  // namespace carillon::server
