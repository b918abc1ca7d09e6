// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What only some jobs have: a key, a content type, limited attempts, a date on the calendar.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace carillon::broker {

/// The extras of a job. Never changed once shared: a job whose extras change gets new ones.
///
/// Cost: a job without any pays nothing, neither in memory nor on disk. A near job with extras
///       costs this object and about 50 bytes more (100 with a key); a far one nothing.
struct JobExtras {
  /// Chosen by the client; unique in the tube while the job exists. Empty: none.
  std::string key;
  /// Of the body. Opaque.
  std::string content_type;
  /// After so many reservations the job is buried instead of becoming ready again. 0: no limit.
  std::uint32_t max_attempts = 0;
  /// A job that failed waits base * 2^(attempt - 1), at most cap, before it is ready again; with
  /// jitter anything from nothing to that. In milliseconds; 0: not at all.
  std::int64_t backoff_base_ms = 0;
  std::int64_t backoff_cap_ms = 0;
  bool backoff_jitter = false;
  /// Not before the calendar (Unix time in ms) reads this, however that is set. Of an instance of
  /// a schedule: its period, which had come when it was put; see date().
  std::optional<std::int64_t> due_at_ms;
  /// The recurring schedule that the job came from. Empty: none.
  std::string schedule;

  /// The date that the job waits for, while it is delayed. An instance waits for none: if it is
  /// delayed, that is by a release or a change, and it keeps its period whatever happens to it.
  [[nodiscard]] std::optional<std::int64_t> date() const {
    return schedule.empty() ? due_at_ms : std::nullopt;
  }

  bool operator==(const JobExtras&) const = default;
  /// Whether there is nothing in it.
  [[nodiscard]] bool empty() const { return *this == JobExtras{}; }
};

/// Null: the job has no extras.
using SharedExtras = std::shared_ptr<const JobExtras>;

/// Whether both say the same; null is the same as empty.
[[nodiscard]] inline bool same_extras(const SharedExtras& a, const SharedExtras& b) {
  if (a == b) return true;
  if (!a || !b) return (a ? a : b)->empty();
  return *a == *b;
}

/// The date that the job waits for, or nothing.
[[nodiscard]] inline std::optional<std::int64_t> date_of(const JobExtras* extras) {
  return extras != nullptr ? extras->date() : std::nullopt;
}
[[nodiscard]] inline std::optional<std::int64_t> date_of(const SharedExtras& extras) {
  return date_of(extras.get());
}

/// The key, or "".
[[nodiscard]] inline std::string_view key_of(const SharedExtras& extras) {
  return extras ? std::string_view(extras->key) : std::string_view();
}

}  // namespace carillon::broker
