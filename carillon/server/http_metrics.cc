// SPDX-License-Identifier: Apache-2.0
// GET /metrics: asks the partitions, and those tubes that have series of their own.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/server/http_handlers.h"
#include "carillon/server/metrics/metrics.h"
#include "carillon/server/webhook/webhooks.h"

namespace carillon::server {
namespace {

using broker::Command;
using broker::Reply;
using broker::Verb;

/// A sample under way.
class Scrape : public std::enable_shared_from_this<Scrape> {
 public:
  explicit Scrape(HttpExchange& exchange) : exchange_(exchange) {}

  void begin() {
    Command command;
    command.verb = Verb::kStats;
    exchange_.ask_all(command, [self = shared_from_this()](const std::vector<Reply>& replies) {
      for (const Reply& reply : replies) {
        if (reply.detail == nullptr) {  // Its store is being recovered.
          self->sample_.store_available = false;
        } else {
          add_partition(self->sample_.partitions, std::get<broker::PartitionStats>(*reply.detail));
        }
      }
      self->ask_for_names();
    });
  }

 private:
  void ask_for_names() {
    Command command;
    command.verb = Verb::kListTubes;
    exchange_.ask_all(command, [self = shared_from_this()](std::vector<Reply> replies) {
      std::vector<std::string> names;
      for (Reply& reply : replies) {
        if (reply.detail == nullptr) continue;
        for (std::string& name : std::get<broker::TubeNames>(*reply.detail)) {
          names.push_back(std::move(name));
        }
      }
      self->ask_for_tubes(names);
    });
  }

  void ask_for_tubes(const std::vector<std::string>& names) {
    // While nobody can say which tubes there are, those that have series keep them.
    const std::set<std::string>& chosen = sample_.store_available
                                              ? exchange_.context().metric_tubes.choose(names)
                                              : exchange_.context().metric_tubes.chosen();
    missing_ = chosen.size() + 1;
    for (const std::string& name : chosen) {
      Command command;
      command.verb = Verb::kStatsTube;
      command.tube = name;
      exchange_.ask(exchange_.partition_of(name), std::move(command),
                    [self = shared_from_this()](const Reply& reply) {
                      if (reply.detail != nullptr) {
                        self->sample_.tubes.push_back(std::get<broker::TubeStats>(*reply.detail));
                      }
                      self->finish_if_last();
                    });
    }
    finish_if_last();
  }

  void finish_if_last() {
    if (--missing_ > 0) return;
    HttpContext& context = exchange_.context();
    const HttpContext::ServerFacts facts = context.describe();
    sample_.version = facts.version;
    sample_.process = read_process_facts();
    sample_.draining = context.draining || context.stopping;
    sample_.connections = facts.connections;
    sample_.http_connections = facts.http_connections;
    sample_.refused_connections = facts.refused_connections;
    sample_.failed_logins = facts.failed_logins;
    sample_.late_logins = facts.late_logins;
    sample_.http_failed_logins = facts.http_failed_logins;
    sample_.commit_failures = facts.commit_failures;
    sample_.recoveries = facts.recoveries;
    sample_.accepts_puts = facts.accepts_puts;
    sample_.held = facts.held;
    sample_.free_bytes = facts.free_bytes;
    sample_.http_requests = context.requests;
    sample_.http_waiting = context.waiting;
    if (context.webhooks != nullptr) {
      sample_.webhooks = context.webhooks->totals();
      for (const broker::TubeStats& tube : sample_.tubes) {
        if (std::optional<WebhookState> state = context.webhooks->state_of(tube.name)) {
          sample_.hooks.push_back({tube.name, std::move(*state)});
        }
      }
    }
    exchange_.respond(HttpResponse{200, std::string(kMetricsContentType), to_text(sample_)});
  }

  HttpExchange& exchange_;
  MetricsSample sample_;
  std::size_t missing_ = 0;
};

}  // namespace

void get_metrics(HttpExchange& exchange) {
  if (exchange.expect_no_query()) std::make_shared<Scrape>(exchange)->begin();
}

}  // namespace carillon::server
