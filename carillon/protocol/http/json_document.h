// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// JSON that has been read: a tree of values in one array. simdjson reads it; nothing else here
/// needs to know.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace carillon::protocol::http {

enum class ValueType : std::uint8_t {
  kNull,
  kFlag,
  kInteger,   ///< From -2^63 to 2^63 - 1 ...
  kUnsigned,  ///< ... and from there to 2^64 - 1.
  kReal,
  kHuge,  ///< A number beyond both sides of those, whole or not.
  kText,
  kWord,  ///< The value of a query parameter: its type is what its reader takes it for.
  kObject,
  kArray,
};

/// One value. The members of an object and the elements of an array are a list.
struct Value {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  ValueType type = ValueType::kNull;
  bool flag = false;
  std::uint32_t first = kNone;  ///< Of an object or array: its first member or element ...
  std::uint32_t next = kNone;   ///< ... and the one after this.
  std::int64_t integer = 0;
  std::string_view name;  ///< Of a member.
  std::string_view text;
};

/// Threads: one object, one thread.
/// Lifetime: the strings of the values are its own and go with it, or at the next parse().
/// Limits:  kMaxDepth, kMaxValues; what is beyond is not read and an error.
class JsonDocument {
 public:
  static constexpr std::size_t kMaxDepth = 16;
  /// A batch of 10,000 jobs with every member they can have is 200,000.
  static constexpr std::size_t kMaxValues = 500'000;

  JsonDocument();
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  /// Reads `text`. Returns what is wrong with it, if anything is.
  [[nodiscard]] std::optional<std::string> parse(std::string_view text);
  /// All values; the first is the whole. Pre: parse() went well.
  [[nodiscard]] const std::vector<Value>& values() const noexcept { return values_; }

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
  std::vector<Value> values_;
};

}  // namespace carillon::protocol::http
