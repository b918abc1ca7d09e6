// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Values of options, read and checked: an error names the option, what was said, and the limits.
/// They are taken as text from the command line, whose parser would read 010 as eight. And spans as
/// text.

#include <cstdint>
#include <string>

#include "carillon/base/result.h"
#include "carillon/base/time.h"

namespace carillon::app {

/// A whole number from `least` to `most`.
[[nodiscard]] Result<std::uint64_t> count_option(const char* option, const std::string& text,
                                                 std::uint64_t least, std::uint64_t most);

/// A duration from `least` to `most`: 500ms, 30s, 5m, 2h, 1d.
[[nodiscard]] Result<Span> duration_option(const char* option, const std::string& text, Span least,
                                           Span most);

/// A part of the whole as "12.5" or "12.5%", from 0 to `most_percent`; 0.125 then.
[[nodiscard]] Result<double> percent_option(const char* option, const std::string& text,
                                            double most_percent);

/// As people say it: "250 ms", "2.8 s", "90 s", "2 h 30 min". Whole milliseconds, rounded up. Pre:
/// not negative.
[[nodiscard]] std::string span_in_words(Span span);
/// The same in seconds, however many: "9000.5 s".
[[nodiscard]] std::string span_in_seconds(Span span);

}  // namespace carillon::app
