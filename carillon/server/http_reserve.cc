// SPDX-License-Identifier: Apache-2.0
// Reserving jobs over HTTP: a long poll for the first, then as many more as are ready.
//
//     watch what is asked for ─► reserve, waiting, in each partition ─► the first job: end the
//     others' waiting ─► reserve without waiting until enough or no more ─► respond ─► sent: the
//     jobs go to the desk
//
// Of jobs of one priority a partition gives those of its tubes in turn, so that a million of one
// tenant do not starve another's ten.
//
// Until the response is with the client's machine, as far as we can know, the jobs belong to the
// session of the connection: if the client is gone, it ends and they are ready again.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "carillon/protocol/http/job_requests.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_handlers.h"
#include "carillon/server/http_job_json.h"

namespace carillon::server {
namespace {

using broker::Answer;
using broker::Command;
using broker::Reply;
using broker::Verb;
using protocol::http::JsonWriter;
using protocol::http::Problem;
using protocol::http::ReserveRequest;

/// Reserves that are asked of a partition at once, after the first.
constexpr std::int64_t kAskAtOnce = 32;
/// No more jobs are added to a response that has so much in it.
constexpr std::size_t kMaxResponse = std::size_t{8} << 20;
/// Bytes of JSON for a job beside its body, about.
constexpr std::size_t kJobSize = 240;

class Reserve : public std::enable_shared_from_this<Reserve> {
 public:
  Reserve(HttpExchange& exchange, ReserveRequest request)
      : exchange_(exchange), context_(exchange.context()), request_(std::move(request)) {}
  ~Reserve() { wait_is_over(); }
  Reserve(const Reserve&) = delete;
  Reserve& operator=(const Reserve&) = delete;

  void begin() {
    for (const std::string& tube : request_.tubes) {
      partitions_ |= std::uint64_t{1} << exchange_.partition_of(tube);
    }
    std::vector<std::string>& watched = exchange_.watched();
    for (const std::string& tube : watched) {
      if (!wants(tube)) change_watch(Verb::kIgnore, tube);
    }
    std::vector<std::string> wanted = request_.tubes;
    for (const std::string& tube : wanted) {
      if (std::find(watched.begin(), watched.end(), tube) == watched.end()) {
        change_watch(Verb::kWatch, tube);
      }
    }
    watched = std::move(wanted);
    changes_sent_ = true;
    if (missing_changes_ == 0) reserve_first();
  }

 private:
  [[nodiscard]] bool wants(const std::string& tube) const {
    return std::find(request_.tubes.begin(), request_.tubes.end(), tube) != request_.tubes.end();
  }

  void change_watch(Verb verb, const std::string& tube) {
    ++missing_changes_;
    Command command;
    command.verb = verb;
    command.tube = tube;
    exchange_.ask(exchange_.partition_of(tube), std::move(command),
                  [this, tube](const Reply& reply) {
                    if (reply.answer != Answer::kWatching) {
                      failure_ = failure_of(reply);
                      std::erase(exchange_.watched(), tube);
                    }
                    if (--missing_changes_ == 0 && changes_sent_) reserve_first();
                  });
  }

  void reserve_first() {
    if (exchange_.revoked()) return exchange_.respond(*exchange_.revoked());
    if (failure_) return exchange_.respond(std::move(*failure_));
    waiting_ = true;
    ++context_.waiting;
    // Replies may come from inside ask(): the first must not go on by itself.
    ++outstanding_;
    for_each_partition([&](std::size_t partition) {
      ask(partition, std::chrono::milliseconds(request_.wait_ms));
    });
    if (--outstanding_ == 0) return go_on();
    exchange_.on_input_ended([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end_waiting();
    });
  }

  /// Returns whether it was waiting.
  bool wait_is_over() {
    if (!std::exchange(waiting_, false)) return false;
    --context_.waiting;
    return true;
  }

  void ask(std::size_t partition, Span timeout) {
    ++outstanding_;
    Command command;
    command.verb = Verb::kReserve;
    command.timeout = timeout;
    command.ttr = std::chrono::milliseconds(request_.ttr_ms);
    command.with_view = true;
    command.tubes_in_turn = true;
    exchange_.ask(partition, std::move(command),
                  [this, partition](Reply reply) { on_reply(partition, std::move(reply)); });
  }

  void on_reply(std::size_t partition, Reply reply) {
    --outstanding_;
    if (reply.answer == Answer::kReserved) {
      size_ += reply.body.size();
      granted_.push_back({partition, std::move(reply)});
      if (waiting_) end_waiting();
    } else {
      exhausted_ |= std::uint64_t{1} << partition;
      if (!failure_) failure_ = failure_of(reply);
    }
    if (outstanding_ == 0) go_on();
  }

  /// Partitions that have not answered yet answer now.
  void end_waiting() {
    if (!wait_is_over()) return;
    for_each_partition([&](std::size_t partition) { exchange_.end_waiting(partition); });
  }

  void go_on() {
    wait_is_over();
    std::int64_t wanted = request_.max - static_cast<std::int64_t>(granted_.size());
    if (granted_.empty() || wanted <= 0 || exchange_.revoked() || size_ >= kMaxResponse ||
        (partitions_ & ~exhausted_) == 0) {
      return finish();
    }
    ++outstanding_;
    for_each_partition([&](std::size_t partition) {
      for (std::int64_t i = 0; i < kAskAtOnce && wanted > 0; ++i, --wanted) {
        if ((exhausted_ >> partition & 1) != 0) break;
        ask(partition, Span::zero());
      }
    });
    if (--outstanding_ == 0) exchange_.defer([self = shared_from_this()] { self->go_on(); });
  }

  /// Each partition was asked for one: what is more than was asked for goes back, of several of the
  /// same priority from another partition each time.
  void give_back_beyond(std::size_t most) {
    if (granted_.size() <= most) return;
    const std::size_t first = context_.surpluses++;
    const auto order = [&](const Granted& granted) {
      return std::pair(std::get<broker::JobView>(*granted.reply.detail).stats.priority,
                       (granted.partition + first) % context_.partitions.count());
    };
    std::stable_sort(granted_.begin(), granted_.end(),
                     [&](const Granted& a, const Granted& b) { return order(a) < order(b); });
    for (std::size_t i = most; i < granted_.size(); ++i) {
      Command back;
      back.verb = Verb::kUnreserve;
      back.ticket = {exchange_.session_id(), 0};  // It has no reply.
      back.id = granted_[i].reply.id;
      context_.partitions.submit(granted_[i].partition, std::move(back));
    }
    granted_.resize(most);
  }

  void finish() {
    if (exchange_.revoked()) {  // What was granted before that was known is not its any more.
      give_back_beyond(0);
      return exchange_.respond(*exchange_.revoked());
    }
    if (granted_.empty() && failure_) return exchange_.respond(std::move(*failure_));
    give_back_beyond(static_cast<std::size_t>(request_.max));
    JsonWriter out;
    out.reserve(size_ + granted_.size() * kJobSize);
    out.begin_object();
    out.key("jobs");
    out.begin_array();
    for (const Granted& granted : granted_) write_reserved_job(granted.reply, context_.epoch, out);
    out.end_array();
    out.end_object();
    if (!granted_.empty()) {
      exchange_.on_sent([self = shared_from_this()] { self->hand_over(); });
    }
    exchange_.respond_json(200, out);
  }

  void hand_over() {
    for (const Granted& granted : granted_) {
      context_.desk.take_over(granted.partition, granted.reply.id, exchange_.session_id());
    }
  }

  template <class Visit>
  void for_each_partition(Visit visit) {
    for (std::uint64_t set = partitions_; set != 0; set &= set - 1) {
      visit(static_cast<std::size_t>(__builtin_ctzll(set)));
    }
  }

  struct Granted {
    std::size_t partition;
    Reply reply;
  };

  HttpExchange& exchange_;
  HttpContext& context_;
  const ReserveRequest request_;
  std::uint64_t partitions_ = 0;  // Where the tubes are ...
  std::uint64_t exhausted_ = 0;   // ... and where there is no more.
  std::size_t missing_changes_ = 0;
  bool changes_sent_ = false;
  std::size_t outstanding_ = 0;
  bool waiting_ = false;
  std::size_t size_ = 0;
  std::vector<Granted> granted_;
  std::optional<Problem> failure_;
};

}  // namespace

void reserve_jobs(HttpExchange& exchange) {
  if (!exchange.expect_no_query()) return;
  const auto values = exchange.json();
  if (!values) return;
  ReserveRequest request;
  if (std::optional<Problem> problem = protocol::http::decode_reserve(*values, request)) {
    return exchange.respond(std::move(*problem));
  }
  const auto reserve = std::make_shared<Reserve>(exchange, std::move(request));
  exchange.keep(reserve);
  reserve->begin();
}

}  // namespace carillon::server
