// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One HTTP request being answered: what a handler is given.
///
///     void pause_tube(HttpExchange& exchange) {
///       ... exchange.ask(partition, command, [&exchange](broker::Reply reply) {
///             exchange.respond(...);
///           });
///     }
///
/// A handler asks the partitions and responds, at once or in the callbacks. A handler that has much
/// to do does a piece of it and calls defer(): other connections have their turn in between.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "carillon/broker/command.h"
#include "carillon/broker/reply.h"
#include "carillon/protocol/http/json_document.h"
#include "carillon/protocol/http/json_writer.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/protocol/http/routes.h"
#include "carillon/server/http_context.h"
#include "carillon/server/http_desk.h"
#include "carillon/server/http_message.h"

namespace carillon::server {

class HttpSession;

/// Threads:   the network thread.
/// Lifetime:  from the request to the last byte of its response, or the end of the connection;
///            callbacks go with it, so they may refer to it.
/// Callbacks: exactly one call for each ask, unless the connection ends before. They may do
///            anything here.
class HttpExchange {
 public:
  using OnReply = std::function<void(broker::Reply)>;

  HttpExchange(HttpSession& session, HttpContext& context, HttpRequest request);

  // The request.

  [[nodiscard]] const HttpRequest& request() const noexcept { return request_; }
  [[nodiscard]] const protocol::http::Destination& destination() const noexcept {
    return destination_;
  }
  /// What stood for the `i`-th {name} of the route.
  [[nodiscard]] std::string_view argument(std::size_t i) const {
    return destination_.arguments.at(i);
  }
  /// The tube that the path names, or nothing: then it has responded.
  [[nodiscard]] std::optional<std::string_view> tube_argument();
  /// The job that the path names, or nothing: then it has responded.
  [[nodiscard]] std::optional<broker::JobId> job_argument();
  /// A job as a path names it: by its id, or by tube and key.
  struct JobName {
    std::size_t partition = 0;
    broker::JobId id = 0;
    std::string tube;  ///< With the key, if the id is 0.
    std::string key;

    /// `command.tube` refers to this then; `options`, if given, become its own, with the key.
    void name(broker::Command& command, broker::CommandOptions options = {}) const;
  };
  /// Nothing: it has responded.
  [[nodiscard]] std::optional<JobName> job_name();
  /// Whether the content type is `type`, parameters aside. Small letters.
  [[nodiscard]] bool has_content_type(std::string_view type) const;
  /// The body as JSON, or nothing: then it has responded. The values live as long as this.
  [[nodiscard]] std::optional<std::span<const protocol::http::Value>> json();
  /// The parameters of the query; they live as long as this.
  [[nodiscard]] std::span<const protocol::http::Value> query();
  /// Responds with a problem if there are parameters; returns whether there are none.
  bool expect_no_query();

  [[nodiscard]] HttpContext& context() noexcept { return context_; }
  /// Whether whoever asks may do and see everything.
  [[nodiscard]] bool is_admin() const;
  /// What the request would be refused with now, if its token was taken away since it was taken.
  /// Whatever waits for long looks at it before it gives anything away; on_input_ended() comes with
  /// it.
  [[nodiscard]] const std::optional<protocol::http::Problem>& revoked() const noexcept {
    return revoked_;
  }

  /// Keeps the state of an answer that takes several steps for as long as this lives, and until the
  /// last callback has returned: so callbacks may refer to it.
  void keep(std::shared_ptr<void> state) { kept_ = std::move(state); }

  // The partitions.

  [[nodiscard]] std::size_t partition_of(std::string_view tube) const;
  [[nodiscard]] std::size_t partition_of(broker::JobId id) const;
  /// Asks in the session of this connection, which has no jobs but while a reserve is answered.
  void ask(std::size_t partition, broker::Command command, OnReply on_reply);
  /// Asks in the session that holds the reservations of all HTTP clients.
  void ask_desk(std::size_t partition, broker::Command command, OnReply on_reply);
  /// Names a reply that somebody else asks for, and has it delivered (HttpContext::deliver) even if
  /// this is gone by then.
  [[nodiscard]] broker::Ticket expect(OnReply on_reply);
  /// Asks every partition; the replies come together, in their order.
  void ask_all(const broker::Command& command, OnReplies on_replies);
  /// Gathers the document of statistics (stats_document.h), and calls back unless the connection is
  /// gone by then.
  void with_stats(std::function<void(std::string)> then);
  /// Ends what waits in `partition` for this connection.
  void end_waiting(std::size_t partition);
  [[nodiscard]] broker::SessionId session_id() const;
  /// The tubes that the session of this connection watches; who changes that keeps it up to date.
  [[nodiscard]] std::vector<std::string>& watched();

  /// Calls `go_on` in a later turn, when the partitions take more work. One at a time.
  void defer(std::function<void()> go_on);
  /// Calls `ended` when the client has closed its side, its token is taken away, or the server
  /// ends, while the response is not there yet. One at a time; once.
  void on_input_ended(std::function<void()> ended);
  /// Calls `sent` when the whole response is with the kernel.
  void on_sent(std::function<void()> sent) { sent_ = std::move(sent); }

  // The response: one of these, once.

  void respond(HttpResponse response);
  void respond(protocol::http::Problem problem);
  void respond_json(int status, protocol::http::JsonWriter& json);
  /// A response of which the end is not known: bytes follow in stream().
  void begin_stream(std::string_view content_type);

  void stream(std::string_view bytes);
  void end_stream();
  /// Bytes of it that the client has not taken.
  [[nodiscard]] std::size_t unsent() const;

  [[nodiscard]] bool has_responded() const noexcept { return responded_; }

  // For the session.

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply);
  void start(protocol::http::Destination destination);
  [[nodiscard]] bool has_deferred() const noexcept { return static_cast<bool>(deferred_); }
  void run_deferred();
  void input_ended();
  /// The tokens have changed.
  void check_token();
  void sent();
  [[nodiscard]] bool awaits_sending() const noexcept {
    return responded_ && static_cast<bool>(sent_);
  }
  [[nodiscard]] bool knows_slot(std::uint64_t slot) const noexcept { return slot >= first_slot_; }

 private:
  std::uint64_t add_slot(OnReply on_reply);

  HttpSession& session_;
  HttpContext& context_;
  HttpRequest request_;
  protocol::http::Destination destination_;
  protocol::http::JsonDocument document_;
  std::vector<protocol::http::Value> query_;
  bool has_query_ = false;
  std::uint64_t first_slot_ = 0;
  std::shared_ptr<void> kept_;
  std::vector<OnReply> slots_;
  std::function<void()> deferred_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // For who may come too late.
  std::function<void()> input_ended_;
  std::function<void()> sent_;
  std::optional<protocol::http::Problem> revoked_;
  bool responded_ = false;
};

}  // namespace carillon::server
