// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Reads the members of one JSON object, or the parameters of a query, by name, type and limits;
/// says of the first that is wrong which it is and what it may be.
///
///     Fields fields(document.values());
///     fields.number("delay_ms", 0, kMaxDelayMs, request.delay_ms);
///     fields.text("key", 1, 200, request.key);
///     if (std::optional<Problem> problem = fields.finish()) return problem;

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "carillon/protocol/http/json_document.h"
#include "carillon/protocol/http/problem.h"

namespace carillon::protocol::http {

/// One object under examination. Every read leaves its variable as it is if the member is not
/// there, and returns whether it was there and right.
///
/// Lifetime: the values must outlive it and what is read as a view.
/// Errors:   kept, the first one; finish() says it. A member that nobody asked for, or that is
///           there twice, is one too.
/// Limits:   kMaxMembers.
class Fields {
 public:
  static constexpr std::size_t kMaxMembers = 64;

  /// Of the value at `at`, which is to be an object. `path` names it in messages: "jobs[3]".
  explicit Fields(std::span<const Value> values, std::uint32_t at = 0, std::string path = {});

  [[nodiscard]] bool has(std::string_view name) const noexcept { return find(name) != nullptr; }
  /// Of all members, for an object whose members anybody may name.
  [[nodiscard]] std::vector<std::string_view> names() const;

  bool number(std::string_view name, std::int64_t least, std::int64_t most, std::int64_t& out);
  bool flag(std::string_view name, bool& out);
  /// Sizes in bytes. Text of JSON is UTF-8; that of a query has to be.
  bool text(std::string_view name, std::size_t least, std::size_t most, std::string_view& out);
  bool text(std::string_view name, std::size_t least, std::size_t most, std::string& out);
  /// One of `words`; its index.
  bool word(std::string_view name, std::span<const std::string_view> words, std::size_t& out);
  /// RFC 3339, or milliseconds since 1970.
  bool time(std::string_view name, std::int64_t& unix_ms);
  /// A job's id: a string of digits or a number.
  bool id(std::string_view name, broker::JobId& out);
  /// A tube's name.
  bool tube(std::string_view name, std::string& out);
  /// The object `name`, to be read by Fields of its own, whose problem is handed to fail(). In a
  /// query its members are parameters "name.member".
  [[nodiscard]] std::optional<Fields> object(std::string_view name);
  /// The places of the elements of the array `name`.
  bool array(std::string_view name, std::size_t least, std::size_t most,
             std::vector<std::uint32_t>& out);
  /// Says that a member has to be there.
  void require(std::string_view name);
  /// Adopts a problem; the first one stays.
  void fail(Problem problem);
  void invalid(std::string_view name, std::string_view what, std::string_view limit);

  [[nodiscard]] std::span<const Value> values() const noexcept { return values_; }
  /// "path.name"
  [[nodiscard]] std::string path_of(std::string_view name) const;

  /// The first problem, if there is any.
  [[nodiscard]] std::optional<Problem> finish();

 private:
  [[nodiscard]] const Value* find(std::string_view name) const noexcept;
  const Value* take(std::string_view name);

  std::span<const Value> values_;
  std::string path_;
  std::string prefix_;  // Of a query: what the names of these parameters begin with.
  absl::InlinedVector<const Value*, 12> members_;
  std::uint64_t taken_ = 0;
  std::optional<Problem> problem_;
};

inline constexpr std::size_t kMaxTubeNameSize = 200;
/// Whether both protocols can name a tube so: letters, digits and -+/;.$_() but no - in front.
[[nodiscard]] bool is_tube_name(std::string_view name) noexcept;
inline constexpr std::string_view kTubeNameLimit =
    "1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( ), not beginning with -";
/// An id as it is written: digits, from 1 to 2^64 - 1. Nothing if it is not one.
[[nodiscard]] std::optional<broker::JobId> parse_id(std::string_view text) noexcept;

}  // namespace carillon::protocol::http
