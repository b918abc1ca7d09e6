// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads HTTP/1.0 and HTTP/1.1 requests from bytes, one after the other. The parser is
/// Boost.Beast's; this is the only place that knows it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "carillon/protocol/http/problem.h"
#include "carillon/server/http_message.h"

namespace carillon::server {

/// Threads: one object, one thread.
/// Errors:  a request that is refused ends the reading: nothing behind it can be understood.
/// Limits:  the header's size is `max_header`, and so are that of a chunk's extension and of the
///          trailer; the body's is what allow_body() says.
class HttpRequestReader {
 public:
  explicit HttpRequestReader(std::size_t max_header);
  ~HttpRequestReader();
  HttpRequestReader(const HttpRequestReader&) = delete;
  HttpRequestReader& operator=(const HttpRequestReader&) = delete;

  enum class Event : std::uint8_t {
    kNeedMore,  ///< Everything was taken, or what is left is the beginning of something.
    kHead,      ///< request() is there, without its body: allow_body() is to be called.
    kComplete,  ///< request() is there; next() is to be called.
    kRefused,   ///< See problem().
  };
  /// Reads on; `bytes` becomes what has not been taken, which is to be handed in again with what
  /// comes behind it.
  Event read(std::string_view& bytes);
  /// How many bytes of body are read at most; more are refused.
  void allow_body(std::uint64_t limit);
  /// Bytes of the body that have come.
  [[nodiscard]] std::size_t body_size() const noexcept;
  /// Begins with the next request.
  void next();

  /// Whether a request has begun: the first byte of it has been read.
  [[nodiscard]] bool has_begun() const noexcept { return begun_; }
  [[nodiscard]] bool has_head() const noexcept { return has_head_; }
  [[nodiscard]] HttpRequest& request() noexcept { return request_; }
  [[nodiscard]] const protocol::http::Problem& problem() const noexcept { return problem_; }

 private:
  class Parser;
  Event refuse(protocol::http::Problem problem);
  Event refuse_head(std::string_view what);
  [[nodiscard]] protocol::http::Problem body_too_large() const;
  std::optional<protocol::http::Problem> take_head();

  const std::size_t max_header_;
  std::unique_ptr<Parser> parser_;  // Null between requests.
  HttpRequest request_;
  protocol::http::Problem problem_;
  bool begun_ = false;
  bool has_head_ = false;
  bool refused_ = false;
  std::uint64_t body_limit_ = 0;
};

}  // namespace carillon::server
