// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Completion scripts for shells, made from the very tree that parses the command line.

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace carillon::app {

/// The words that an option takes, where its validators do not tell.
using WordsOf =
    std::function<std::vector<std::string>(const CLI::App& verb, const CLI::Option& option)>;

[[nodiscard]] std::string bash_completions(const CLI::App& program, const WordsOf& words_of);
[[nodiscard]] std::string zsh_completions(const CLI::App& program, const WordsOf& words_of);
[[nodiscard]] std::string fish_completions(const CLI::App& program, const WordsOf& words_of);

}  // namespace carillon::app
