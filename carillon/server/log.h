// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the server has to say of itself: a level, the name of what has happened, a sentence, and
/// the values in it by name. The names of events and fields are promised: docs/operating/logs.md.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace carillon::server {

enum class LogLevel { kInfo, kWarning, kError };

/// A value of an entry, by name.
struct LogField {
  LogField(std::string_view field, std::string text) : name(field), value(std::move(text)) {}
  LogField(std::string_view field, std::string_view text) : name(field), value(text) {}
  LogField(std::string_view field, const char* text) : name(field), value(text) {}
  template <std::integral Number>
  LogField(std::string_view field, Number number)
      : name(field), value(std::to_string(number)), is_number(true) {}

  std::string_view name;
  std::string value;
  bool is_number = false;
};

struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  std::string_view event;
  std::string_view message;  ///< Says all that the fields say.
  std::span<const LogField> fields;
};

/// Where entries go. Copies go to the same place.
///
/// Threads: as the function that it is made of; the server calls from any.
class Log {
 public:
  /// The event of what is said without one.
  static constexpr std::string_view kNoEvent = "message";

  /// Nowhere.
  Log() = default;
  /// To a function of an entry, or of a level and a message.
  template <class Function>
    requires(!std::same_as<std::remove_cvref_t<Function>, Log>)
  Log(Function function) {  // NOLINT(google-explicit-constructor): as std::function
    if constexpr (std::invocable<Function&, const LogEntry&>) {
      sink_ = std::move(function);
    } else {
      sink_ = [function = std::move(function)](const LogEntry& entry) {
        function(entry.level, entry.message);
      };
    }
  }

  void operator()(LogLevel level, std::string_view event, std::string_view message,
                  std::initializer_list<LogField> fields = {}) const {
    if (sink_) sink_({level, event, message, {fields.begin(), fields.size()}});
  }
  void operator()(LogLevel level, std::string_view message) const {
    (*this)(level, event_, message);
  }
  /// The same place, for a part of the server: what it says without an event has this one. `event`
  /// is not copied.
  [[nodiscard]] Log of(std::string_view event) const {
    Log part = *this;
    part.event_ = event;
    return part;
  }

 private:
  std::function<void(const LogEntry&)> sink_;
  std::string_view event_ = kNoEvent;
};

}  // namespace carillon::server
