// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The bytes a connection has still to send: text written into one string, with large bodies hung
/// in between by reference.

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "carillon/broker/body.h"

namespace carillon::server {

/// A queue of bytes.
///
/// Threads: one object, one thread.
/// Cost:    text and bodies below kCopyBelow are copied once; larger bodies are referred to. Memory
///          is given back when everything has been sent.
class OutputBuffer {
 public:
  /// From this size on a reference and an iovec are cheaper than a copy.
  static constexpr std::size_t kCopyBelow = 4096;

  /// Grows at its end by whatever is appended to the string; nothing else may be done to it.
  [[nodiscard]] std::string& text() noexcept { return text_; }
  void append_body(broker::Body body);

  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Bytes that remain to be sent.
  [[nodiscard]] std::size_t size() const noexcept {
    return text_.size() - text_sent_ + bodies_left_;
  }
  /// Describes the first bytes; returns how many of `vectors` that took. The description is valid
  /// until anything is appended or consumed.
  [[nodiscard]] std::size_t describe(std::span<iovec> vectors) const;
  /// The first `count` bytes have been sent.
  void consume(std::size_t count);

 private:
  struct Hung {
    std::size_t at;  // Its place: behind the first `at` bytes of text_.
    broker::Body body;
  };

  void compact();

  // What was sent: the first text_sent_ bytes of text_, hung_ before next_hung_, and body_sent_
  // bytes of the one at next_hung_.
  std::string text_;
  std::vector<Hung> hung_;
  std::size_t text_sent_ = 0;
  std::size_t next_hung_ = 0;
  std::size_t body_sent_ = 0;
  std::size_t bodies_left_ = 0;  // Unsent bytes of all hung bodies.
};

}  // namespace carillon::server
