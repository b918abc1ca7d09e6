// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/completions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace carillon::app {
namespace {

enum class Value { kNone, kAny, kFile, kFolder, kWord };

/// An option or a positional argument, as shells see it.
struct Argument {
  std::vector<std::string> flags;  ///< "--tube", "-t"; none: positional.
  std::string help;
  std::string type;
  Value value = Value::kNone;
  std::vector<std::string> words;
  bool repeats = false;  ///< Of a positional one: takes all that follows.
};

struct Verb {
  std::string name;  ///< Empty: the program itself.
  std::string help;
  std::vector<Argument> arguments;
};

/// The first sentence or clause: one line.
std::string short_help(const std::string& text) {
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  const std::size_t end = std::min(line.find("; "), line.find(". "));
  if (end != std::string::npos) line.resize(end);
  return line;
}

/// What stands in braces of "STATE:{ready,delayed}": how CLI11 tells of a set of words.
std::vector<std::string> words_in(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (end == std::string::npos) return words;
  std::istringstream list(type.substr(begin + 1, end - begin - 1));
  for (std::string word; std::getline(list, word, ',');) words.push_back(word);
  return words;
}

Argument argument_of(const CLI::App& verb, const CLI::Option& option, const WordsOf& words_of) {
  Argument argument;
  for (const std::string& name : option.get_lnames()) argument.flags.push_back("--" + name);
  for (const std::string& name : option.get_snames()) argument.flags.push_back("-" + name);
  argument.help = short_help(option.get_description());
  if (option.get_items_expected_max() == 0) return argument;
  const std::string type = option.get_type_name();
  argument.type = argument.flags.empty() ? option.get_name(true) : type.substr(0, type.find(':'));
  argument.words = words_in(type);
  if (argument.words.empty()) argument.words = words_of(verb, option);
  argument.value = Value::kAny;
  argument.repeats = option.get_items_expected_max() > 1;
  if (!argument.words.empty()) {
    argument.value = Value::kWord;
  } else if (argument.type == "FILE") {
    argument.value = Value::kFile;
  } else if (argument.type == "FOLDER" || argument.type == "BACKUP" ||
             option.get_single_name() == "data") {
    argument.value = Value::kFolder;
  }
  return argument;
}

Verb verb_of(const CLI::App& app, const WordsOf& words_of, bool is_program = false) {
  Verb verb{app.get_name(), short_help(app.get_description()), {}};
  for (const CLI::Option* option : app.get_options()) {
    verb.arguments.push_back(argument_of(app, *option, words_of));
  }
  if (is_program) return verb;
  // Of a verb that has verbs: their names, what any of them takes, and anything.
  Argument names;
  std::set<std::string> known = {"--help"};
  for (const CLI::App* inner : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.words.push_back(inner->get_name());
    for (const CLI::Option* option : inner->get_options()) {
      Argument argument = argument_of(*inner, *option, words_of);
      if (argument.flags.empty() || !known.insert(argument.flags.front()).second) continue;
      verb.arguments.push_back(std::move(argument));
    }
  }
  if (names.words.empty()) return verb;
  names.type = "verb";
  names.value = Value::kWord;
  verb.arguments.push_back(std::move(names));
  Argument rest;
  rest.type = "argument";
  rest.value = Value::kAny;
  rest.repeats = true;
  verb.arguments.push_back(std::move(rest));
  return verb;
}

std::vector<Verb> verbs_of(const CLI::App& program, const WordsOf& words_of) {
  std::vector<Verb> verbs;
  for (const CLI::App* app : program.get_subcommands([](const CLI::App*) { return true; })) {
    verbs.push_back(verb_of(*app, words_of));
  }
  return verbs;
}

/// In single quotes, for any of the shells.
std::string in_quotes(std::string_view text, std::string_view quote_inside = "'\\''") {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote_inside;
    } else {
      out += c;
    }
  }
  return out += '\'';
}

std::string joined(const std::vector<std::string>& items, std::string_view between) {
  return fmt::format("{}", fmt::join(items, between));
}

// bash

/// The case labels of a flag behind its verb: 'put --tube'|'put -t'.
std::string labels_of(const Verb& verb, const Argument& argument) {
  std::vector<std::string> labels;
  for (const std::string& flag : argument.flags) {
    labels.push_back(in_quotes(verb.name + " " + flag));
  }
  return joined(labels, " | ");
}

std::string bash_reply(const Argument& argument) {
  switch (argument.value) {
    case Value::kFile: return "COMPREPLY=($(compgen -f -- \"$cur\"))";
    case Value::kFolder: return "COMPREPLY=($(compgen -d -- \"$cur\"))";
    case Value::kWord:
      return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                         in_quotes(joined(argument.words, " ")));
    case Value::kNone:
    case Value::kAny: break;
  }
  return "COMPREPLY=()";
}

// zsh

/// Within a specification of _arguments, in single quotes.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_value(const Argument& argument) {
  const std::string name = zsh_text(argument.type.empty() ? "value" : argument.type);
  switch (argument.value) {
    case Value::kNone: return "";
    case Value::kAny: return ":" + name + ":";
    case Value::kFile: return ":" + name + ":_files";
    case Value::kFolder: return ":" + name + ":_files -/";
    case Value::kWord: return ":" + name + ":(" + joined(argument.words, " ") + ")";
  }
  return "";
}

void add_zsh_arguments(std::string& out, const Verb& verb, std::string_view indent) {
  int place = 0;
  for (const Argument& argument : verb.arguments) {
    const std::string value = zsh_value(argument);
    if (argument.flags.empty()) {
      const std::string where = argument.repeats ? "*" : std::to_string(++place);
      out += fmt::format("{}{} \\\n", indent, in_quotes(where + value));
      continue;
    }
    for (const std::string& flag : argument.flags) {
      out += fmt::format("{}{} \\\n", indent,
                         in_quotes("*" + flag + "[" + zsh_text(argument.help) + "]" + value));
    }
  }
}

// fish

std::string fish_quoted(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') escaped += '\\';
    escaped += c;
  }
  return in_quotes(escaped, "\\'");
}

void add_fish_arguments(std::string& out, const Verb& verb, std::string_view condition) {
  for (const Argument& argument : verb.arguments) {
    std::string line = fmt::format("complete -c carillon -n {}", in_quotes(condition));
    for (const std::string& flag : argument.flags) {
      line += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
    }
    if (!argument.flags.empty()) {
      line += " -d " + fish_quoted(argument.help);
      if (argument.value != Value::kNone) line += " -r";
    }
    switch (argument.value) {
      case Value::kFile: line += " -F"; break;
      case Value::kFolder: line += " -f -a '(__fish_complete_directories)'"; break;
      case Value::kWord: line += " -f -a " + fish_quoted(joined(argument.words, " ")); break;
      case Value::kNone:
      case Value::kAny:
        if (argument.flags.empty()) continue;
        line += " -f";
        break;
    }
    out += line + '\n';
  }
}

}  // namespace

std::string bash_completions(const CLI::App& program, const WordsOf& words_of) {
  const std::vector<Verb> verbs = verbs_of(program, words_of);
  Verb own = verb_of(program, words_of, true);
  own.name.clear();
  std::string values;
  std::string flags;
  std::string taking;  // Flags of the program that take a value.
  std::vector<std::string> names;
  for (const Verb& verb : verbs) names.push_back(verb.name);
  std::vector<Verb> all = verbs;
  all.push_back(own);
  for (const Verb& verb : all) {
    std::vector<std::string> known;
    for (const Argument& argument : verb.arguments) {
      known.insert(known.end(), argument.flags.begin(), argument.flags.end());
      if (argument.value == Value::kNone || argument.flags.empty()) continue;
      values +=
          fmt::format("    {}) {}; return ;;\n", labels_of(verb, argument), bash_reply(argument));
      if (verb.name.empty())
        taking += (taking.empty() ? "" : " | ") + joined(argument.flags, " | ");
    }
    flags +=
        fmt::format("    {}) known={} ;;\n", in_quotes(verb.name), in_quotes(joined(known, " ")));
    for (const Argument& argument : verb.arguments) {
      if (!argument.flags.empty()) continue;
      if (argument.value == Value::kAny || argument.value == Value::kNone) continue;
      values += fmt::format("    {}' '[!-]* | {}' ') if [[ $cur != -* ]]; then {}; return; fi ;;\n",
                            in_quotes(verb.name), in_quotes(verb.name), bash_reply(argument));
    }
  }
  return fmt::format(R"(# bash completion of carillon; made by: carillon completions bash
_carillon() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} verb='' known='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {}) ((++i)) ;;
      -*) ;;
      *) verb=${{COMP_WORDS[i]}} && break ;;
    esac
  done
  case "$verb $prev" in
{}  esac
  case $verb in
{}  esac
  if [[ -z $verb && $cur != -* ]]; then known={}; fi
  COMPREPLY=($(compgen -W "$known" -- "$cur"))
}}
complete -F _carillon carillon
)",
                     taking, values, flags, in_quotes(joined(names, " ")));
}

std::string zsh_completions(const CLI::App& program, const WordsOf& words_of) {
  std::string verbs;
  std::string cases;
  for (const Verb& verb : verbs_of(program, words_of)) {
    verbs += fmt::format("        {}\n", in_quotes(verb.name + ":" + zsh_text(verb.help)));
    cases += fmt::format("        {})\n          _arguments \\\n", verb.name);
    add_zsh_arguments(cases, verb, "            ");
    cases += "            && return\n          ;;\n";
  }
  std::string own;
  add_zsh_arguments(own, verb_of(program, words_of, true), "    ");
  return fmt::format(R"(#compdef carillon
# zsh completion of carillon; made by: carillon completions zsh
_carillon() {{
  local context state state_descr line
  typeset -A opt_args
  _arguments -C \
{}    '1: :->verb' \
    '*:: :->rest' && return
  case $state in
    verb)
      local -a verbs=(
{}      )
      _describe verb verbs
      ;;
    rest)
      case $line[1] in
{}      esac
      ;;
  esac
}}
if [[ $funcstack[1] == _carillon ]]; then _carillon "$@"; else compdef _carillon carillon; fi
)",
                     own, verbs, cases);
}

std::string fish_completions(const CLI::App& program, const WordsOf& words_of) {
  std::string out =
      "# fish completion of carillon; made by: carillon completions fish\n"
      "complete -c carillon -f\n";
  add_fish_arguments(out, verb_of(program, words_of, true), "__fish_use_subcommand");
  for (const Verb& verb : verbs_of(program, words_of)) {
    out += fmt::format("complete -c carillon -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                       fish_quoted(verb.help));
    add_fish_arguments(out, verb, "__fish_seen_subcommand_from " + verb.name);
  }
  return out;
}

}  // namespace carillon::app
