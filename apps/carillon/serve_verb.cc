// SPDX-License-Identifier: Apache-2.0
// carillon serve

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/carillon/log_lines.h"
#include "apps/carillon/output.h"
#include "apps/carillon/verbs.h"
#include "carillon/server/options.h"
#include "carillon/server/server.h"

namespace carillon::app {
namespace {

using server::LogLevel;
using server::Option;
using server::ServerOptions;

/// What was said on the command line, by option name.
struct CommandLine {
  const CLI::Option* config = nullptr;
  std::map<std::string_view, const CLI::Option*> options;
  bool print_config = false;
};

std::string help_of(const Option& option) {
  std::string text(option.help);
  if (!text.ends_with('.')) text += '.';
  const ServerOptions defaults;
  if (option.kind == Option::Kind::kFlag) return text;
  if (const std::string value = option.value(defaults); !value.empty()) {
    text += fmt::format(" [{}]", value);
  }
  const std::string limits = option.limits();
  return limits.empty() ? text : text + fmt::format(" ({})", limits);
}

const char* type_of(Option::Kind kind) {
  switch (kind) {
    case Option::Kind::kFlag: return "";
    case Option::Kind::kCount: return "N";
    case Option::Kind::kSize: return "SIZE";
    case Option::Kind::kDuration: return "TIME";
    case Option::Kind::kText: return "TEXT";
    case Option::Kind::kEndpoints: return "ADDRESS";
    case Option::Kind::kTexts: return "TEXT";
  }
  return "";
}

void add_options(CLI::App& verb, CommandLine& line) {
  for (const Option& option : server::option_table()) {
    const std::string flag = "--" + std::string(option.name);
    const std::string help = help_of(option);
    CLI::Option* added = nullptr;
    if (option.kind == Option::Kind::kFlag) {
      added = verb.add_flag(flag, help);  // Takes --NAME, --NAME=true and --NAME=false.
    } else {
      added = verb.add_option(flag, help);
      added->type_name(type_of(option.kind));
      if (option.is_list()) {
        added->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args(false);
      } else {
        added->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
    }
    line.options[option.name] = added;
  }
}

/// The file first, then the command line over it.
Result<ServerOptions> options_of(const CommandLine& line) {
  ServerOptions options;
  if (line.config->count() > 0) {
    if (Result<void> loaded = server::load_config(line.config->results().back(), options);
        !loaded) {
      return std::move(loaded).error();
    }
  }
  for (const Option& option : server::option_table()) {
    std::vector<std::string> values = line.options.at(option.name)->results();
    if (values.empty()) continue;
    if (option.is_list()) {
      option.clear(options);
    } else {
      values = {values.back()};
    }
    for (const std::string& value : values) {
      if (Result<void> set = option.set(options, value); !set) {
        set.error().message.insert(0, "--");
        return std::move(set).error();
      }
    }
  }
  if (Result<void> checked = server::check_options(options); !checked) {
    return std::move(checked).error();
  }
  return options;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out += '"';
}

/// As a value in the file: numbers and flags bare, everything else in quotes.
std::string file_value(const Option& option, const ServerOptions& options) {
  if (option.is_list()) {
    const std::vector<std::string> values = option.values(options);
    if (option.kind == Option::Kind::kEndpoints && values.front() == "none") return "\"none\"";
    std::string list;
    for (const std::string& value : values) {
      list.append(list.empty() ? "" : ", ").append(in_quotes(value));
    }
    return "[" + list + "]";
  }
  const std::string value = option.value(options);
  const bool bare = option.kind == Option::Kind::kFlag || option.kind == Option::Kind::kCount ||
                    (option.kind == Option::Kind::kSize &&
                     value.find_first_not_of("0123456789") == std::string::npos);
  return bare ? value : in_quotes(value);
}

/// The configuration as a file that would give it.
void print_config(const ServerOptions& options) {
  for (const Option& option : server::option_table()) {
    if (options.memory && option.of_disk) continue;  // It would be refused, or mean nothing.
    if (option.value(options).empty()) continue;     // Nothing is what it is by default.
    fmt::print("{} = {}\n", option.name, file_value(option, options));
  }
}

int serve(const CommandLine& line) {
  Result<ServerOptions> options = options_of(line);
  if (!options) {
    print_error("carillon serve: " + options.error().message);
    return kUsage;
  }
  if (line.print_config) {
    print_config(*options);
    return kOk;
  }
  const auto lines = std::make_shared<LogLines>(options->log_level, options->log_format);
  const server::Log log = log_to(lines);
  for (const std::string& idle : server::idle_options(*options)) {
    log(LogLevel::kWarning, "idle_option", idle);
  }
  Result<std::unique_ptr<server::Server>> started = server::Server::start(*options, log);
  if (!started) {
    log(LogLevel::kError, "start_failed", started.error().message);
    return kServerError;
  }
  (*started)->reload_by(
      {[&line] { return options_of(line); },
       [&lines](const ServerOptions& now) { lines->set(now.log_level, now.log_format); }});
  const bool clean = (*started)->run();
  started->reset();
  log(LogLevel::kInfo, "stopped", clean ? "stopped" : "stopped, but not cleanly");
  return clean ? kOk : kServerError;
}

}  // namespace

void add_serve(CLI::App& program, int& status, const Connecting& connecting) {
  CLI::App* verb = program.add_subcommand("serve", "Run the server");
  verb->footer(
      "\nSIGTERM or SIGINT: accept no more, answer what has arrived, make it durable,\nend.\n"
      "SIGUSR1: refuse puts with DRAINING from now on.\n"
      "SIGUSR2: make a backup in --backup-folder.\n"
      "SIGHUP: read the configuration again; the log says what has changed.\n"
      "Every option can stand in the file of --config as NAME = VALUE (TOML); flags\n"
      "override it, --NAME=false too.");
  auto line = std::make_shared<CommandLine>();
  line->config = verb->add_option("--config", "TOML file with any of the options below")
                     ->type_name("FILE")
                     ->expected(1);
  add_options(*verb, *line);
  verb->add_flag("--print-config", line->print_config,
                 "Print the options as they would be used, as a file for --config, and end.");
  verb->callback([line, &status, &connecting] {
    if (connecting.said()) {
      print_long_error(fmt::format("carillon serve: {}; see --listen", kForOtherVerbs));
      status = kUsage;
      return;
    }
    status = serve(*line);
  });
}

}  // namespace carillon::app
