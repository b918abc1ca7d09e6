// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Writes JSON, in the conventions of the API: ids as strings, since numbers beyond 2^53 do not
/// survive many clients; times as RFC 3339.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "carillon/broker/job.h"

namespace carillon::protocol::http {

/// One JSON text, built from front to back.
///
/// Threads: one object, one thread.
/// Errors:  members outside of objects, ends that do not match and such are bugs; in builds with
///          RapidJSON's assertions they stop the program.
class JsonWriter {
 public:
  JsonWriter();
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void begin_object();
  void end_object();
  void begin_array();
  void end_array();
  /// The name of the next member.
  void key(std::string_view name);

  /// Pre: valid UTF-8.
  void text(std::string_view value);
  void number(std::int64_t value);
  void number(std::uint64_t value);
  void real(double value);
  void flag(bool value);
  void null();
  /// A whole JSON text that is known to be one.
  void raw(std::string_view json);

  void field(std::string_view name, std::string_view value) { key(name), text(value); }
  void field(std::string_view name, const char* value) { key(name), text(value); }
  void field(std::string_view name, const std::string& value) { key(name), text(value); }
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  void field(std::string_view name, Number value) {
    key(name);
    if constexpr (std::is_same_v<Number, bool>) {
      flag(value);
    } else if constexpr (std::is_floating_point_v<Number>) {
      real(value);
    } else if constexpr (std::is_signed_v<Number>) {
      number(static_cast<std::int64_t>(value));
    } else {
      number(static_cast<std::uint64_t>(value));
    }
  }
  void id(std::string_view name, broker::JobId value) { field(name, std::to_string(value)); }
  /// Milliseconds since 1970 as RFC 3339.
  void time(std::string_view name, std::int64_t unix_ms);

  /// Makes room for `bytes` more at once. A long text is built without that too, with more copying.
  void reserve(std::size_t bytes);
  /// Ends a JSON text that is a line of several; the next begins.
  void end_line();

  [[nodiscard]] std::size_t size() const noexcept;
  /// What was written; the writer is empty again.
  [[nodiscard]] std::string take();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Whether `bytes` are UTF-8 and so can be a JSON string.
[[nodiscard]] bool is_utf8(std::string_view bytes) noexcept;

}  // namespace carillon::protocol::http
