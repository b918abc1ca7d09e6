// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The reading half of beanstalkd's protocol: bytes, cut anywhere, become requests.
///
///     ┌──────┐  put …   ┌──────┐ size bytes ┌─────────┐ CRLF
///     │ line │ ───────► │ body │ ─────────► │ trailer │ ──────► request
///     └──────┘          └──────┘            └─────────┘ else ─► EXPECTED_CRLF
///      │    │ put, too big  ┌──────┐ size + 2 bytes
///      │    └─────────────► │ skip │ ─────────────────► JOB_TOO_BIG
///      │ no CRLF in 224     ┌─────────┐ CRLF
///      └──────────────────► │ swallow │ ────► BAD_FORMAT
///                           └─────────┘
///
/// It follows the grammar of beanstalkd's source rather than that of its document, because clients
/// were written against the program: `kick -1` and `reserve-with-timeout 0 junk` are accepted,
/// `quitter` quits, `reservex` is BAD_FORMAT but `putx` UNKNOWN_COMMAND.
///
/// One thing is not beanstalkd's. Any page in a browser may have it post a text to any port of its
/// own machine, and the lines of that text would be commands. So a connection that begins as a
/// request of HTTP does is refused as a whole (kOtherProtocol).

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "carillon/protocol/beanstalk/request.h"

namespace carillon::protocol::beanstalk {

/// The parser of one connection.
///
/// Threads: one object, one thread.
/// Errors:  none; bad input becomes a request with a refusal, and parsing goes on behind it where
///          beanstalkd's does.
/// Cost:    one pass over the bytes. A line is not copied unless the bytes end inside it; a body is
///          copied once, or not at all when it is read into body_room().
/// Limits:  224 bytes for a line. For a body, at most four times what has arrived of it plus 1 MiB,
///          whatever size was announced.
class Parser {
 public:
  /// Bodies above `max_job_size` bytes are skipped and refused. Pre: at most kMaxJobSizeCap.
  explicit Parser(std::uint32_t max_job_size) noexcept : max_job_size_(max_job_size) {}

  /// From the next put on. Pre: at most kMaxJobSizeCap.
  void set_max_job_size(std::uint32_t max_job_size) noexcept { max_job_size_ = max_job_size; }

  /// Takes bytes from the front of `bytes` up to the end of one request.
  ///
  /// Returns true if `request` is one; its views are valid until the next call and while the memory
  /// of `bytes` is. Returns false if all of `bytes` has been taken and a request needs more.
  bool next(std::string_view& bytes, Request& request);

  /// Where the next bytes from the connection may be put directly: the unfilled rest of a large
  /// body. Empty if there is none, or so little that a copy is cheaper.
  [[nodiscard]] std::span<char> body_room();
  /// The first `count` bytes of body_room() have been filled.
  void body_filled(std::size_t count) noexcept;

  /// Whether the bytes so far end between two requests.
  [[nodiscard]] bool between_requests() const noexcept {
    return state_ == State::kLine && line_size_ == 0;
  }

 private:
  enum class State : std::uint8_t { kLine, kSwallow, kBody, kTrailer, kSkip };

  bool next_line(std::string_view& bytes, std::string_view& line);
  bool swallow_line(std::string_view& bytes);
  bool begin(std::string_view line, Request& request);
  bool begin_put(std::string_view arguments, Request& request);
  bool grow_body();
  void skip_body(std::uint64_t size, Refusal refusal) noexcept;
  bool finish_trailer(Request& request);
  bool begins_as_http(std::string_view line) noexcept;

  std::uint32_t max_job_size_;
  State state_ = State::kLine;
  Refusal skip_refusal_ = Refusal::kJobTooBig;
  std::uint8_t line_size_ = 0;     // Of line_, while kLine.
  std::uint8_t trailer_size_ = 0;  // Of trailer_, while kTrailer.
  bool last_was_cr_ = false;       // While kSwallow.
  bool is_first_ = true;           // No line has ended yet.
  bool is_http_ = false;           // The first line was.
  std::array<char, 2> trailer_{};
  std::uint64_t skip_left_ = 0;  // While kSkip.

  // The put whose body is being read.
  std::uint32_t priority_ = 0;
  std::uint32_t delay_s_ = 0;
  std::uint32_t ttr_s_ = 0;
  std::uint32_t body_size_ = 0;    // As announced.
  std::uint32_t body_filled_ = 0;  // <= body_.size() <= body_size_
  broker::Body body_;

  std::array<char, kLineLimit> line_;  // A line cut by the end of the bytes; else untouched.
};

}  // namespace carillon::protocol::beanstalk
