// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the program writes: results on standard output, what went wrong on standard error.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace carillon::app {

/// What every terminal has.
inline constexpr std::size_t kColumns = 80;

/// The words of `text` behind `first`, in lines of at most kColumns; those after the first begin
/// with `indent` spaces. Every line ends with a line feed.
[[nodiscard]] std::string wrapped(const std::string& text, const std::string& first,
                                  std::size_t indent);

/// Lays out --help in kColumns.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> make_help_formatter();

/// Makes sure that descriptors 0, 1 and 2 are taken, so that a socket never becomes one of them.
/// Reading or writing one that was closed stays an error. Call it before anything is opened.
void take_standard_descriptors() noexcept;

/// Writes `message` and a line feed on standard error. What cannot be written is lost: there is
/// nowhere else to say so.
void print_error(std::string_view message) noexcept;

/// The same in lines of at most kColumns, where words allow it; those that go on begin with spaces.
void print_long_error(const std::string& message);

/// Writes out everything printed so far. False if any of it could not be written; says so on
/// standard error the first time.
[[nodiscard]] bool flush_output() noexcept;

}  // namespace carillon::app
