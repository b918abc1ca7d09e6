// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/option_values.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "carillon/server/units.h"

namespace carillon::app {
namespace {

Error out_of_range(const char* option, std::string_view text, std::string_view least,
                   std::string_view most) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} is out of range ({} to {})", option, text, least, most)};
}

}  // namespace

Result<std::uint64_t> count_option(const char* option, const std::string& text, std::uint64_t least,
                                   std::uint64_t most) {
  Result<std::uint64_t> number = server::parse_count(text);
  if (!number) {
    // 1,000,000 and the like: people write it so.
    std::string digits;
    for (const char c : text) {
      if (c >= '0' && c <= '9') {
        digits += c;
      } else if (std::string_view(",'_ ").find(c) == std::string_view::npos) {
        return std::move(number).error().prefixed(option);
      }
    }
    if (digits.empty() || digits == text) return std::move(number).error().prefixed(option);
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: '{}' is not a number: write {}", option, text, digits)};
  }
  if (*number < least || *number > most) {
    return out_of_range(option, text, std::to_string(least), std::to_string(most));
  }
  return *number;
}

Result<Span> duration_option(const char* option, const std::string& text, Span least, Span most) {
  Result<Span> span = server::parse_duration(text);
  if (!span) return std::move(span).error().prefixed(option);
  if (*span < least || *span > most) {
    return out_of_range(option, text, server::format_duration(least),
                        server::format_duration(most));
  }
  return *span;
}

Result<double> percent_option(const char* option, const std::string& text, double most_percent) {
  std::string_view digits = text;
  if (digits.ends_with('%')) digits.remove_suffix(1);
  double percent = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), percent,
                                            std::chars_format::fixed);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: '{}' is not a percentage (12.5%)", option, text)};
  }
  if (!(percent >= 0 && percent <= most_percent)) {
    return out_of_range(option, text, "0%", fmt::format("{}%", most_percent));
  }
  return percent / 100;
}

std::string span_in_seconds(Span span) {
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  std::string text = fmt::format("{}.{:03}", ms / 1'000, ms % 1'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::string span_in_words(Span span) {
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  if (ms < 1'000) return fmt::format("{} ms", ms);
  if (ms < 120'000) return span_in_seconds(span);
  std::string text;
  const auto append = [&text](const std::string& part) {
    if (!text.empty()) text += ' ';
    text += part;
  };
  if (ms >= 86'400'000) append(fmt::format("{} d", ms / 86'400'000));
  if (ms / 3'600'000 % 24 != 0) append(fmt::format("{} h", ms / 3'600'000 % 24));
  if (ms / 60'000 % 60 != 0) append(fmt::format("{} min", ms / 60'000 % 60));
  if (ms % 60'000 != 0) append(span_in_seconds(std::chrono::milliseconds(ms % 60'000)));
  return text;
}

}  // namespace carillon::app
