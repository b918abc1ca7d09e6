// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `Result<T>`: a value or an `Error`, for operating errors (a bug is a CARILLON_CHECK instead).
/// Shaped as std::expected, which libstdc++ 12 lacks, so that it can become an alias later.

#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "carillon/base/check.h"

namespace carillon {

/// What kind of thing went wrong. A small closed set: callers branch on it, people read the
/// message.
enum class ErrorCode {
  kInvalidArgument,  ///< The caller's input; the message names the field and the limit.
  kNotFound,
  kAlreadyExists,
  kLimitExceeded,  ///< A named limit was hit; nothing was changed.
  kUnavailable,    ///< Not now: draining, store down. Trying again may help.
  kNoSpace,        ///< The disk is full.
  kCorrupt,        ///< Stored bytes are not what was written.
  kIo,             ///< Any other failure of the operating system.
};

[[nodiscard]] constexpr std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kAlreadyExists: return "already exists";
    case ErrorCode::kLimitExceeded: return "limit exceeded";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kNoSpace: return "no space";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kIo: return "I/O error";
  }
  return "unknown";
}

struct Error {
  ErrorCode code;
  std::string message;

  /// The same error with `context` put in front: "open jobs.db: no space".
  [[nodiscard]] Error prefixed(std::string_view context) && {
    message.insert(0, ": ").insert(0, context);
    return std::move(*this);
  }
};

/// A `T` or the error that prevented it. Reading the wrong one is a bug and stops the program.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-*)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-*)

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  T& value() & { return checked(); }
  const T& value() const& { return const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(checked()); }
  T& operator*() & { return checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &value(); }

  Error& error() & {
    CARILLON_CHECK(!has_value(), "error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }
  const Error& error() const& { return const_cast<Result*>(this)->error(); }
  Error&& error() && { return std::move(error()); }

 private:
  T& checked() {
    CARILLON_CHECK(has_value(), error().message);
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

/// Success without a value, or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : state_(std::move(error)) {}  // NOLINT(google-*)

  [[nodiscard]] bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }
  void value() const { CARILLON_CHECK(has_value(), error().message); }

  Error& error() & {
    CARILLON_CHECK(!has_value(), "error() of a successful Result<void>");
    return *std::get_if<1>(&state_);
  }
  const Error& error() const& { return const_cast<Result*>(this)->error(); }
  Error&& error() && { return std::move(error()); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace carillon
