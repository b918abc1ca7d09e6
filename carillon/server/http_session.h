// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// One HTTP client, without its socket: bytes go in, requests are answered one after the other, and
/// responses come out. Requests may be pipelined: the next is read when the present one has its
/// response.
///
///     bytes ─► HttpRequestReader ─► guard, route ─► HttpExchange, handler ··· on_reply ─► output

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "carillon/broker/reply.h"
#include "carillon/server/http_context.h"
#include "carillon/server/http_exchange.h"
#include "carillon/server/http_request_reader.h"
#include "carillon/server/output_buffer.h"

namespace carillon::server {

/// Threads:  the network thread.
/// Lifetime: the context and the output must outlive it. It is open in all partitions from its
///           construction to its destruction.
class HttpSession {
 public:
  /// `request_work`: resume() is wanted in a later turn.
  HttpSession(broker::SessionId id, HttpContext& context, OutputBuffer& output,
              std::function<void()> request_work);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Input.

  void receive(std::string_view bytes);
  /// The client has closed its side: a reserve that waits ends.
  void end_input();
  /// The tokens have changed: ends what waits or streams by one that may not do so any more.
  void check_token();
  /// Takes no request after the present one: the server ends.
  void stop();
  /// Says what is wrong and takes nothing more.
  void refuse_and_close(const protocol::http::Problem& problem);
  /// Goes on with what was kept, and with a handler that has deferred. To be called when the
  /// partitions accept work.
  void resume();
  [[nodiscard]] bool can_resume() const noexcept;
  [[nodiscard]] bool wants_input() const noexcept;

  void on_reply(std::size_t partition, std::uint64_t slot, broker::Reply reply);
  /// The output has been sent, all of it. To be called when awaits_sending().
  void on_output_sent();
  /// Whether something is to be done when the present response has been sent. If the client is
  /// known to be gone by then, the session is to be closed instead.
  [[nodiscard]] bool awaits_sending() const noexcept {
    return exchange_ != nullptr && exchange_->awaits_sending();
  }

  /// What the client is waited for, for timeouts.
  enum class Phase : std::uint8_t {
    kIdle,       ///< No request has begun.
    kHead,       ///< A request has begun.
    kBody,       ///< Its body is to come.
    kAnswering,  ///< It is being answered; nobody waits for the client.
    kFinished,   ///< The connection is to be closed when the output is sent.
  };
  [[nodiscard]] Phase phase() const noexcept;
  /// Requests that have been read so far; changes whenever a phase begins anew.
  [[nodiscard]] std::uint64_t request_count() const noexcept { return requests_; }
  /// The client took too long: responds and finishes, if a request has begun; else just finishes.
  void time_out();
  [[nodiscard]] bool finished() const noexcept { return phase() == Phase::kFinished; }

  [[nodiscard]] broker::SessionId id() const noexcept { return id_; }
  [[nodiscard]] bool input_has_ended() const noexcept { return input_ended_; }

  // For the exchange.

  [[nodiscard]] std::uint64_t next_slot() const noexcept { return next_slot_; }
  std::uint64_t take_slot() noexcept { return next_slot_++; }
  void request_work() { request_work_(); }
  void send_response(HttpResponse response);
  void begin_stream(std::string_view content_type);
  void stream(std::string_view bytes);
  void end_stream();
  [[nodiscard]] std::size_t unsent() const noexcept { return output_.size(); }

  [[nodiscard]] static HttpResponse response_of(const protocol::http::Problem& problem);

  /// While a request is answered, so much more is read, so that the end of the input is seen.
  static constexpr std::size_t kReadAhead = std::size_t{64} * 1024;

  /// The tubes that this session watches in the partitions; a reserve keeps it up to date.
  [[nodiscard]] std::vector<std::string>& watched() noexcept { return watched_; }

 private:
  void parse(std::string_view& bytes);
  void parse_kept();
  bool on_head();
  [[nodiscard]] std::unique_ptr<protocol::http::Problem> check_head(std::uint64_t& body_limit);
  void on_complete();
  void write_head(const HttpResponse& response, std::size_t size);
  [[nodiscard]] std::size_t room_for_bodies() const;
  [[nodiscard]] protocol::http::Problem no_room() const;
  [[nodiscard]] bool count_body();
  void release_body();
  [[nodiscard]] bool exchange_is_over() const noexcept;
  [[nodiscard]] std::size_t kept_size() const noexcept { return kept_.size() - kept_from_; }

  const broker::SessionId id_;
  HttpContext& context_;
  OutputBuffer& output_;
  const std::function<void()> request_work_;
  HttpRequestReader reader_;
  std::string kept_;  // Bytes that were read and not taken: kept_from_ to its end.
  std::size_t kept_from_ = 0;
  bool needs_more_ = false;                 // They are the beginning of something, and no more.
  std::unique_ptr<HttpExchange> exchange_;  // Dies in resume(), when nothing of it is running.
  std::uint64_t next_slot_ = 1;
  std::uint64_t requests_ = 0;
  std::uint64_t guard_changes_ = 0;  // When the head of the present request was checked.
  std::size_t body_reserved_ = 0;    // Of context_.bodies.
  std::vector<std::string> watched_;
  bool keep_alive_ = true;  // As far as the present request is concerned.
  bool is_head_ = false;
  bool is_http_1_1_ = true;
  bool streaming_ = false;
  bool input_ended_ = false;
  bool closing_ = false;  // Nothing more is read.
  std::string allowed_;   // For Allow, if the method was wrong.
  // What the head was refused with, if the body is read over first.
  std::unique_ptr<protocol::http::Problem> refused_;
};

}  // namespace carillon::server
