// SPDX-License-Identifier: Apache-2.0
#include "carillon/timer/timer_stats.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace carillon {
namespace {

// In a label's value, backslash, quote and newline are escaped.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string seconds(Span span) {
  char text[32];
  // Not printf(), which writes a comma where the locale has one.
  constexpr int kDigits = 9;
  const auto end =
      std::to_chars(text, text + sizeof(text), static_cast<double>(span.count()) * 1e-9,
                    std::chars_format::general, kDigits);
  return {text, end.ptr};
}

class Exposition {
 public:
  explicit Exposition(std::string_view name) : label_("timer=\"" + escaped(name) + "\"") {}

  void add(const std::string& metric, const char* type, const char* help, std::uint64_t value) {
    head(metric, type, help);
    line(metric, label_, std::to_string(value));
  }

  void add(const std::string& metric, const char* help, const TimerHistogram& histogram) {
    head(metric, "histogram", help);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < TimerHistogram::kBuckets; ++i) {
      sum += histogram.buckets[i];
      const bool last = i + 1 == TimerHistogram::kBuckets;
      line(metric + "_bucket",
           label_ + ",le=\"" + (last ? "+Inf" : seconds(TimerHistogram::bound(i))) + "\"",
           std::to_string(sum));
    }
    line(metric + "_sum", label_, seconds(histogram.sum));
    line(metric + "_count", label_, std::to_string(sum));
  }

  std::string take() { return std::move(text_); }

 private:
  void head(const std::string& metric, const char* type, const char* help) {
    text_ += "# HELP " + metric + ' ' + help + "\n# TYPE " + metric + ' ' + type + '\n';
  }
  void line(const std::string& metric, const std::string& labels, const std::string& value) {
    text_ += metric + '{' + labels + "} " + value + '\n';
  }

  const std::string label_;
  std::string text_;
};

}  // namespace

std::size_t TimerHistogram::bucket_of(Span span) noexcept {
  const Span::rep nanos = std::max<Span::rep>(span.count(), 1);
  // The least i for which 2^i us is not less.
  const auto micros = static_cast<std::uint64_t>(nanos - 1) / 1000;
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(micros)), kBuckets - 1);
}

Span TimerHistogram::quantile(double part) const noexcept {
  const double wanted = part * static_cast<double>(count);
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    total += buckets[i];
    if (total != 0 && static_cast<double>(total) >= wanted) {
      return bound(i);
    }
  }
  return Span::zero();
}

std::string to_prometheus(const TimerStats& stats, std::string_view name) {
  const std::string prefix = "carillon_timer_";
  Exposition out(name);
  out.add(prefix + "pending", "gauge", "Timers that wait.", stats.pending);
  out.add(prefix + "memory_bytes", "gauge", "Memory of the wheels.", stats.memory_bytes);
  out.add(prefix + "scheduled_total", "counter", "Timers taken.", stats.scheduled);
  out.add(prefix + "cancelled_total", "counter", "Timers that will never run.", stats.cancelled);
  out.add(prefix + "fired_total", "counter", "Callbacks begun.", stats.fired);
  out.add(prefix + "rejected_total", "counter", "Timers refused.", stats.rejected);
  out.add(prefix + "exceptions_total", "counter", "Callbacks that threw.", stats.exceptions);
  out.add(prefix + "dropped_total", "counter", "Callbacks that the executor dropped.",
          stats.dropped);
  out.add(prefix + "slow_total", "counter", "Callbacks that ran too long.", stats.slow);
  out.add(prefix + "missed_total", "counter", "Due times of periodic timers left out.",
          stats.missed);
  out.add(prefix + "wakeups_total", "counter", "Times the driver woke.", stats.wakeups);
  out.add(prefix + "executor_full_total", "counter", "Times the executor had no room.",
          stats.executor_full);
  out.add(prefix + "lateness_seconds", "From the deadline's tick to the callback.", stats.lateness);
  out.add(prefix + "callback_seconds", "Time in a callback.", stats.callback_time);
  out.add(prefix + "driver_work_seconds", "Work of the driver for a wake-up.", stats.driver_work);
  return out.take();
}

}  // namespace carillon
