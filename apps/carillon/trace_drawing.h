// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A trace as text: at most 80 columns, plain ASCII, readable without colour.
///
///     .     an empty slot          [ ]   the slot under the hand
///     A     a timer; where there is no room, a digit counts several, + is ten or more
///     C+1   a timer that the hand passes once more before it fires
///
/// Where a slot is one column, | is an empty one under the hand, a small letter a timer there, and
/// * several.

#include <string>
#include <string_view>
#include <vector>

#include "apps/carillon/trace.h"

namespace carillon::app {

/// Draws one trace. Each function but time() returns whole lines.
class TraceDrawing {
 public:
  static constexpr std::size_t kColumns = 80;

  /// `trace` was made with `setup`, must outlive it, and be at its start.
  TraceDrawing(const Trace& trace, const TraceSetup& setup);

  /// What the wheel looks like.
  [[nodiscard]] std::string wheel() const;
  /// A line for each timer: where it lies and when it is due, or when it fired.
  [[nodiscard]] std::string timers() const;
  /// What belongs above the pictures if each of them is one line, else nothing.
  [[nodiscard]] std::string heading() const { return one_line_ ? numbers() : std::string(); }
  /// The rings, and what has just happened.
  [[nodiscard]] std::string picture(const std::vector<Trace::Event>& events) const;

  /// A point of the wheel's time in the words of the wheel: "7 s" or "02:30:00".
  [[nodiscard]] std::string time(Tick tick) const;

 private:
  struct Ring {
    Tick granularity;
    int slots;
  };

  /// Slots of a line.
  [[nodiscard]] int per_line(int level) const;
  [[nodiscard]] std::string_view unit(int level) const;
  [[nodiscard]] std::string name(int level) const;
  [[nodiscard]] std::string place(const Trace::Place& place) const;
  [[nodiscard]] std::string length(Tick ticks) const;
  [[nodiscard]] std::vector<std::string> describe(const std::vector<Trace::Event>& events) const;
  [[nodiscard]] std::string cell(int level, int slot, bool hand) const;
  [[nodiscard]] std::string row(int level, int first, int hand) const;
  [[nodiscard]] bool is_empty(int level, int first) const;
  [[nodiscard]] std::string rings() const;
  [[nodiscard]] std::string waiting() const;
  [[nodiscard]] std::string numbers() const;

  const Trace& trace_;
  WheelKind kind_;
  Span tick_;
  bool time_of_day_;
  std::vector<Ring> rings_;
  // Levels that are there but hold nothing.
  std::size_t levels_above_ = 0;
  // Columns of a slot, and of the time and the space behind it where a picture is one line.
  std::size_t width_ = 1;
  std::size_t time_columns_ = 10;
  bool one_line_ = false;
};

}  // namespace carillon::app
