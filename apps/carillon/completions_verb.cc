// SPDX-License-Identifier: Apache-2.0
// carillon completions

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/carillon/completions.h"
#include "apps/carillon/verbs.h"
#include "carillon/server/options.h"

namespace carillon::app {
namespace {

/// The words of an option of `serve`.
std::vector<std::string> words_of(const CLI::App& verb, const CLI::Option& option) {
  if (verb.get_name() != "serve") return {};
  for (const server::Option& known : server::option_table()) {
    if (known.name != option.get_single_name()) continue;
    return {known.words.begin(), known.words.end()};
  }
  return {};
}

}  // namespace

void add_completions(CLI::App& program) {
  CLI::App* app = program.add_subcommand("completions", "Print the completions for a shell");
  auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("");
  app->footer(
      "\nbash: carillon completions bash > /etc/bash_completion.d/carillon\n"
      "zsh:  carillon completions zsh > a folder of $fpath/_carillon\n"
      "fish: carillon completions fish > ~/.config/fish/completions/carillon.fish");
  app->callback([&program, shell] {
    fmt::print("{}", *shell == "bash"  ? bash_completions(program, words_of)
                     : *shell == "zsh" ? zsh_completions(program, words_of)
                                       : fish_completions(program, words_of));
  });
}

}  // namespace carillon::app
