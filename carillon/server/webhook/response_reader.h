// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads what an HTTP/1 server answers: keeps the status and Retry-After, and throws the body away.
/// No socket.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace carillon::server {

/// The response to one POST.
///
/// Threads: one object, one thread.
/// Limits:  kMaxHead bytes of status line and fields; kMaxBody of a body, of which nothing is kept.
///          Interim responses (1xx) are skipped, kMaxInterim of them.
class ResponseReader {
 public:
  static constexpr std::size_t kMaxHead = 16'384;
  static constexpr std::size_t kMaxBody = 65'536;
  static constexpr int kMaxInterim = 16;

  enum class State : unsigned char {
    kHead,      ///< Nothing is decided.
    kBody,      ///< The answer is known, its body is not at its end.
    kFinished,  ///< All of it has been read.
    kBroken,    ///< It is not HTTP or too long. If it was in kBody before, the answer stands.
  };

  ResponseReader();
  ~ResponseReader();
  ResponseReader(const ResponseReader&) = delete;
  ResponseReader& operator=(const ResponseReader&) = delete;

  /// Takes the next bytes. Does nothing once it is finished or broken.
  State receive(std::string_view bytes);
  /// The server has closed: the end of a body that has no length, else a broken response.
  State end_input();
  [[nodiscard]] State state() const noexcept;

  /// Whether a single byte has been received.
  [[nodiscard]] bool has_begun() const noexcept;
  /// 200 to 599, or 0: not known yet.
  [[nodiscard]] int status() const noexcept;
  /// The first Retry-After; empty: none.
  [[nodiscard]] const std::string& retry_after() const noexcept;
  /// Whether the connection can carry another request: kFinished, nothing behind it, and the server
  /// does not want to close.
  [[nodiscard]] bool can_reuse_connection() const noexcept;
  /// What is wrong, if it is kBroken.
  [[nodiscard]] const std::string& error() const noexcept;

 private:
  class Parser;
  State fail(std::string why);
  void parse();

  std::unique_ptr<Parser> parser_;
  std::string input_;  // What the parser has not taken.
  State state_ = State::kHead;
  bool begun_ = false;
  int interim_ = 0;
  std::string error_;
};

}  // namespace carillon::server
