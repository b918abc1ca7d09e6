// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/trace_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "apps/carillon/option_values.h"

namespace carillon::app {
namespace {

constexpr std::size_t kLabelColumns = 16;
constexpr int kLongestLine = 64;

constexpr std::array<std::string_view, 5> kUnits = {"ms", "second", "minute", "hour", "day"};

std::string centered(std::string_view text, std::size_t width) {
  const std::size_t left = width > text.size() ? (width - text.size()) / 2 : 0;
  return fmt::format("{:{}}{:<{}}", "", left, text, width - left);
}

char small(char capital) { return static_cast<char>(capital - 'A' + 'a'); }

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

}  // namespace

TraceDrawing::TraceDrawing(const Trace& trace, const TraceSetup& setup)
    : trace_(trace),
      kind_(setup.kind),
      tick_(setup.tick),
      time_of_day_(setup.time_of_day || kind_ == WheelKind::kClock || kind_ == WheelKind::kHours) {
  const WheelSnapshot snapshot = trace.snapshot();
  const std::size_t levels = std::min(trace.levels_in_use(), snapshot.levels.size());
  levels_above_ = snapshot.levels.size() - levels;
  int most = 0;
  for (std::size_t level = 0; level < levels; ++level) {
    const WheelSnapshot::Level& l = snapshot.levels[level];
    rings_.push_back({l.granularity, static_cast<int>(l.counts.size())});
    most = std::max(most, rings_.back().slots);
  }
  width_ = most <= 8 && kind_ == WheelKind::kHashed ? 6 : most <= 20 ? 3 : 1;
  for (const Trace::Timer& timer : trace.timers()) {
    time_columns_ = std::max(time_columns_, time(timer.due).size() + 4);
  }
  one_line_ = kind_ == WheelKind::kHashed && most <= kLongestLine &&
              time_columns_ + width_ * static_cast<std::size_t>(most) <= kColumns;
}

int TraceDrawing::per_line(int level) const {
  const int slots = rings_[static_cast<std::size_t>(level)].slots;
  return slots <= kLongestLine ? slots : slots % kLongestLine == 0 ? kLongestLine : 50;
}

std::string TraceDrawing::length(Tick ticks) const {
  if (ticks == 0 && tick_ >= std::chrono::seconds(1)) return "0 s";
  return span_in_words(tick_ * static_cast<std::int64_t>(ticks));
}

std::string TraceDrawing::time(Tick tick) const {
  if (!time_of_day_) {
    return kind_ == WheelKind::kHashed && tick_ % std::chrono::seconds(1) == Span::zero()
               ? span_in_seconds(tick_ * static_cast<std::int64_t>(tick))
               : length(tick);
  }
  const Span since = tick_ * static_cast<std::int64_t>(tick);
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(since).count();
  std::string text =
      fmt::format("{:02}:{:02}:{:02}", ms / 3'600'000 % 24, ms / 60'000 % 60, ms / 1'000 % 60);
  if (tick_ % std::chrono::seconds(1) != Span::zero()) text += fmt::format(".{:03}", ms % 1'000);
  if (ms >= 86'400'000) text.insert(0, fmt::format("{}d ", ms / 86'400'000));
  return text;
}

/// "minute", of a wheel whose levels have such names.
std::string_view TraceDrawing::unit(int level) const {
  const auto index = static_cast<std::size_t>(level + (kind_ == WheelKind::kHours ? 1 : 0));
  const bool named = kind_ == WheelKind::kHours || kind_ == WheelKind::kClock;
  return named && index < kUnits.size() ? kUnits[index] : std::string_view();
}

std::string TraceDrawing::name(int level) const {
  const std::string_view word = unit(level);
  if (kind_ == WheelKind::kHashed) return "ring";
  if (word.empty()) return fmt::format("level {}", level);
  return word == "ms" ? std::string(word) : fmt::format("{}s", word);
}

std::string TraceDrawing::place(const Trace::Place& place) const {
  if (kind_ == WheelKind::kHashed) {
    std::string text = fmt::format("slot {}", place.slot);
    if (place.rounds > 0) {
      text += fmt::format(", {} round{}", place.rounds, place.rounds == 1 ? "" : "s");
    }
    return text;
  }
  const std::string_view word = unit(place.level);
  if (!word.empty()) return fmt::format("{} {}", word, place.slot);
  return fmt::format("level {}, slot {}", place.level, place.slot);
}

std::string TraceDrawing::wheel() const {
  std::string text;
  if (levels_above_ > 0) {
    text +=
        fmt::format("  {} coarser levels, up to 2^64 ticks, with nothing in them\n", levels_above_);
  }
  for (std::size_t level = rings_.size(); level-- > 0;) {
    const Ring& ring = rings_[level];
    std::string line = fmt::format("  {:<9} {} slot{} of {}{}", name(static_cast<int>(level)),
                                   ring.slots, ring.slots == 1 ? "" : "s", length(ring.granularity),
                                   kind_ == WheelKind::kKafka && level > 2 ? " (overflow)" : "");
    const std::string turn =
        "; one turn is " + length(ring.granularity * static_cast<Tick>(ring.slots));
    if (line.size() + turn.size() <= kColumns) line += turn;
    text += line + '\n';
  }
  text += width_ == 1 ? "  | or a small letter: under the hand" : "  [ ] the hand";
  if (width_ > 3) text += "    X+1: the hand passes X once more before it fires";
  return text + '\n';
}

std::string TraceDrawing::timers() const {
  // Columns as wide as what stands in them; if that is too wide, without what can be reckoned.
  enum Column : std::size_t { kName, kDelay, kDue, kPlace, kLeft, kColumnCount };
  std::vector<std::array<std::string, kColumnCount>> lines;
  for (const Trace::Timer& timer : trace_.timers()) {
    auto& line = lines.emplace_back();
    line[kName] = std::string(1, timer.name);
    line[kDelay] = " +" + length(timer.deadline - trace_.start());
    line[kDue] = "  due at " + time(timer.deadline);
    if (timer.due != timer.deadline) line[kDue] += ", rounded up to " + time(timer.due);
    line[kPlace] = "  " + (timer.place ? place(*timer.place) : std::string("fired"));
    if (timer.place) line[kLeft] = "  in " + length(timer.due - trace_.now());
  }
  std::array<std::size_t, kColumnCount> widths{};
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < kColumnCount; ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  const auto total = [&widths] {
    std::size_t sum = 1;
    for (const std::size_t width : widths) sum += width + (width > 0 ? 1 : 0);
    return sum;
  };
  for (const Column spare : {kLeft, kDelay}) {
    if (total() <= kColumns) break;
    widths[spare] = 0;
  }
  std::string text;
  for (const auto& line : lines) {
    std::string columns = " ";
    for (std::size_t i = 0; i < kColumnCount; ++i) {
      if (widths[i] > 0) columns += fmt::format(" {:<{}}", line[i], widths[i]);
    }
    text += trimmed(columns);
  }
  return text;
}

std::vector<std::string> TraceDrawing::describe(const std::vector<Trace::Event>& events) const {
  using Kind = Trace::Event::Kind;
  std::vector<std::string> lines;
  for (const Trace::Event& event : events) {
    const Trace::Timer& timer = trace_.timers()[event.timer];
    if (event.from.level != event.to.level) {
      lines.push_back(
          fmt::format("{} cascades: {} -> {}", timer.name, place(event.from), place(event.to)));
    }
    if (event.kind == Kind::kPasses) {
      lines.push_back(fmt::format("{}: {} round{} left", timer.name, event.to.rounds,
                                  event.to.rounds == 1 ? "" : "s"));
    } else if (event.kind == Kind::kFires) {
      const Tick late = timer.due - timer.deadline;
      lines.push_back(late == 0 ? fmt::format("{} fires", timer.name)
                                : fmt::format("{} fires, {} late", timer.name, length(late)));
    }
  }
  return lines;
}

std::string TraceDrawing::cell(int level, int slot, bool hand) const {
  std::vector<std::string> names;
  for (const Trace::Timer& timer : trace_.timers()) {
    if (!timer.place || timer.place->level != level || timer.place->slot != slot) continue;
    std::string& text = names.emplace_back(1, timer.name);
    if (timer.place->rounds > 0) text += fmt::format("+{}", timer.place->rounds);
  }
  if (width_ == 1) {
    if (names.empty()) return hand ? "|" : ".";
    if (names.size() == 1) return std::string(1, hand ? small(names[0][0]) : names[0][0]);
    if (hand) return "*";
    return names.size() < 10 ? fmt::format("{}", names.size()) : "+";
  }
  const std::size_t room = width_ - (hand ? 2 : 0);
  std::string text = names.empty() ? (hand ? " " : ".") : names[0];
  for (std::size_t i = 1; i < names.size(); ++i) text += ' ' + names[i];
  if (text.size() > room && names.size() > 1) {
    text = names.size() < 10 ? fmt::format("{}", names.size()) : "+";
  }
  if (text.size() > room) text.resize(room);
  return centered(hand ? '[' + text + ']' : text, width_);
}

std::string TraceDrawing::row(int level, int first, int hand) const {
  const int end = std::min(rings_[static_cast<std::size_t>(level)].slots, first + per_line(level));
  std::string text;
  for (int slot = first; slot < end; ++slot) text += cell(level, slot, slot == hand);
  return text;
}

bool TraceDrawing::is_empty(int level, int first) const {
  return std::none_of(trace_.timers().begin(), trace_.timers().end(), [&](const auto& timer) {
    return timer.place && timer.place->level == level && timer.place->slot >= first &&
           timer.place->slot < first + per_line(level);
  });
}

/// The numbers of the slots of a line.
std::string TraceDrawing::numbers() const {
  int most = 0;
  for (int level = 0; level < static_cast<int>(rings_.size()); ++level) {
    most = std::max(most, per_line(level));
  }
  std::string text(one_line_ ? time_columns_ : kLabelColumns, ' ');
  if (width_ > 1) {
    for (int slot = 0; slot < most; ++slot) text += centered(fmt::format("{}", slot), width_);
  } else {
    for (int slot = 0; slot < most; slot += 10) text += fmt::format("{:<10}", slot);
  }
  const std::string label = one_line_ ? fmt::format("{:>{}}", "slot", time_columns_ - 2)
                                      : fmt::format("{:>{}}", "hand", kLabelColumns - 2);
  return trimmed(text.replace(0, label.size(), label));
}

/// A line for each level, the coarsest above, so that what cascades goes down; for a long ring one
/// for each part in which there is something.
std::string TraceDrawing::rings() const {
  const WheelSnapshot snapshot = trace_.snapshot();
  std::string text = numbers();
  for (int level = static_cast<int>(rings_.size()) - 1; level >= 0; --level) {
    const int slots = rings_[static_cast<std::size_t>(level)].slots;
    const int hand = snapshot.levels[static_cast<std::size_t>(level)].hand;
    const int step = per_line(level);
    for (int first = 0; first < slots; first += step) {
      const bool has_hand = hand >= first && hand < first + step;
      if (!has_hand && is_empty(level, first)) continue;
      const std::string label = slots == step ? fmt::format("  {:<8}{:>4}", name(level), hand)
                                              : fmt::format("  {} {}..", name(level), first);
      text += trimmed(fmt::format("{:<{}}{}", label, kLabelColumns, row(level, first, hand)));
    }
  }
  return text;
}

std::string TraceDrawing::picture(const std::vector<Trace::Event>& events) const {
  std::vector<std::string> lines = describe(events);
  std::string text;
  if (one_line_) {
    const int hand = trace_.snapshot().levels[0].hand;
    std::string line =
        fmt::format("{:>{}}  {}", time(trace_.now()), time_columns_ - 2, row(0, 0, hand));
    // Beside the ring if there is room, else below it.
    const std::size_t ring_columns = line.size();
    std::size_t next = 0;
    for (; next < lines.size(); ++next) {
      if (ring_columns + 2 + lines[next].size() > kColumns) break;
      text += trimmed(fmt::format("{:<{}}  {}", line, ring_columns, lines[next]));
      line.clear();
    }
    if (!line.empty()) text += trimmed(line);
    for (; next < lines.size(); ++next) {
      text += trimmed(fmt::format("{:{}}{}", "", time_columns_, lines[next]));
    }
    return text;
  }
  const std::string now = time(trace_.now());
  if (lines.empty()) lines.emplace_back();
  for (const std::string& line : lines) {
    text += trimmed(fmt::format("{:<{}}  {}", text.empty() ? now : "", now.size(), line));
  }
  return text + rings() + waiting();
}

/// When that is due which has not fired: some to a line.
std::string TraceDrawing::waiting() const {
  std::string text;
  std::string line = "  waiting:";
  for (const Trace::Timer& timer : trace_.timers()) {
    if (!timer.place) continue;
    const std::string item = fmt::format(" {} due at {},", timer.name, time(timer.due));
    if (line.size() + item.size() > kColumns) {
      text += line + '\n';
      line = "          ";
    }
    line += item;
  }
  if (!line.ends_with(',')) return text;
  line.pop_back();
  return text + line + '\n';
}

}  // namespace carillon::app
