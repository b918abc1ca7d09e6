// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/client.h"

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "carillon/protocol/beanstalk/request.h"
#include "carillon/server/units.h"

namespace carillon::app {
namespace {

constexpr const char* kDefaultServer = "127.0.0.1:11300";
constexpr const char* kDefaultPatience = "5s";
constexpr const char* kServerVariable = "CARILLON_SERVER";

}  // namespace

Span span_of(const std::string& text, const char* option) {
  Result<Span> span = server::parse_duration(text);
  if (!span) throw Failure{kUsage, fmt::format("{}: {}", option, span.error().message)};
  return *span;
}

std::uint32_t wire_seconds(const std::string& text, const char* option, std::uint32_t most) {
  const Span span = span_of(text, option);
  if (span > std::chrono::seconds(most)) {
    throw Failure{kUsage, fmt::format("{}: {} is out of range (0s to {}s)", option, text, most)};
  }
  return server::ceil_seconds(span);
}

std::uint64_t number_of(const std::string& text, const char* option, std::uint64_t most) {
  const Result<std::uint64_t> number = server::parse_count(text);
  if (!number || *number > most) {
    throw Failure{kUsage, fmt::format("{}: '{}' is not a number from 0 to {}", option, text, most)};
  }
  return *number;
}

std::optional<std::string> said(const CLI::Option* option) {
  if (option->count() == 0) return std::nullopt;
  return option->results().back();
}

server::Endpoint address_of(const Target& target) {
  const char* named_by = "--server";
  std::optional<std::string> address = said(target.of_verb.server);
  if (!address) address = said(target.of_program.server);
  if (const char* variable = std::getenv(kServerVariable); !address && variable != nullptr) {
    named_by = kServerVariable;
    address = variable;
  }
  Result<server::Endpoint> at = server::Endpoint::parse(address.value_or(kDefaultServer));
  if (!at) throw Failure{kUsage, fmt::format("{}: {}", named_by, at.error().message)};
  return std::move(*at);
}

server::BeanstalkClient connect(const Target& target) {
  Result<server::BeanstalkClient> client =
      server::BeanstalkClient::connect(address_of(target), target.patience());
  if (client) return std::move(*client);
  std::string message = client.error().message;
  const std::string refused = std::generic_category().message(ECONNREFUSED);
  if (message.find(refused) != std::string::npos) {
    message += "; does a server run there? carillon serve starts one";
  }
  throw Failure{kServerError, std::move(message)};
}

Failure failure_of(const Answer& answer) {
  for (const char* absent : {"NOT_FOUND", "TIMED_OUT", "DEADLINE_SOON"}) {
    if (answer.line == absent) return {kNotFound, answer.line};
  }
  for (const char* refusal : {"BAD_FORMAT", "BURIED", "DRAINING", "EXPECTED_CRLF", "INTERNAL_ERROR",
                              "JOB_TOO_BIG", "NOT_IGNORED", "OUT_OF_MEMORY", "UNKNOWN_COMMAND"}) {
    if (answer.is(refusal)) return {kServerError, answer.line};
  }
  return {kServerError, fmt::format("the server answered nonsense: '{}'", answer.line)};
}

Answer expect(Result<Answer> result, std::string_view word, const std::string& absent) {
  Answer answer = value_or_fail(std::move(result), kServerError);
  if (answer.is(word)) return answer;
  Failure failure = failure_of(answer);
  if (failure.status == kNotFound && !absent.empty()) failure.message += ": " + absent;
  throw failure;
}

void check_tube(const std::string& tube) {
  if (!protocol::beanstalk::is_tube_name(tube)) {
    throw Failure{kUsage, fmt::format("--tube: '{}' is not 1 to 200 of A-Z a-z 0-9 - + / ; . $ _ ( "
                                      "), the first of them not '-'",
                                      tube)};
  }
}

Span Target::patience() const {
  std::optional<std::string> patience = said(of_verb.patience);
  if (!patience) patience = said(of_program.patience);
  return span_of(patience.value_or(kDefaultPatience), "--patience");
}

Fields fields_of(const std::string& document) {
  Fields fields;
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 2);
    if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
    fields.emplace_back(line.substr(0, colon), std::move(value));
  }
  return fields;
}

std::string field(const Fields& fields, std::string_view key) {
  for (const auto& [name, value] : fields) {
    if (name == key) return value;
  }
  throw Failure{kServerError, fmt::format("the server's statistics have no {}", key)};
}

std::uint64_t count_field(const Fields& fields, std::string_view key) {
  const Result<std::uint64_t> number = server::parse_count(field(fields, key));
  return number ? *number : 0;
}

Connecting add_connecting(CLI::App& app) {
  const auto add = [&app](const char* name, const char* type, const std::string& help) {
    return app.add_option(name, help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  Connecting connecting;
  connecting.server =
      add("-s,--server", "ADDRESS",
          fmt::format("Address of the server: HOST:PORT or unix:PATH; or the variable {} [{}]",
                      kServerVariable, kDefaultServer));
  connecting.patience = add("--patience", "TIME",
                            fmt::format("How long to wait for the server [{}]", kDefaultPatience));
  return connecting;
}

CLI::App* add_client_verb(CLI::App& program, const char* name, const char* description,
                          Target& target, const Connecting& of_program) {
  CLI::App* verb = program.add_subcommand(name, description);
  target.of_verb = add_connecting(*verb);
  target.of_program = of_program;
  return verb;
}

}  // namespace carillon::app
