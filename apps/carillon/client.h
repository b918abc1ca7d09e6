// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the verbs that ask a server share: where it is, what its answers mean, which exit status.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/carillon/output.h"
#include "apps/carillon/verbs.h"
#include "carillon/base/result.h"
#include "carillon/server/beanstalk_client.h"

namespace carillon::app {

/// What went wrong, on its way to on_call().
struct Failure {
  ExitStatus status;
  std::string message;
};

/// What to do about a failure to speak to where `option` says: if nobody listens there, or one side
/// speaks no TLS or is not believed. Nothing if `message` tells of something else.
[[nodiscard]] std::string hint_for(const std::string& message, const char* option = "--server");

template <class T>
T value_or_fail(Result<T> result, ExitStatus status) {
  if (result) return std::move(*result);
  std::string message = std::move(result).error().message;
  if (status == kServerError) message += hint_for(message);
  throw Failure{status, std::move(message)};
}

/// "put", "schedule set".
[[nodiscard]] std::string name_of(const CLI::App& verb);

/// Runs `verb` when its subcommand is given; says what went wrong.
template <class Verb>
void on_call(CLI::App* app, std::shared_ptr<Verb> verb, int& status) {
  app->callback([name = name_of(*app), verb, &status] {
    try {
      verb->run();
    } catch (const Failure& failure) {
      print_long_error(fmt::format("carillon {}: {}", name, failure.message));
      status = failure.status;
    }
  });
}

// Values of options. Failures have the status kUsage and name the option.

/// What the protocol can say of a delay or a time to run, of a priority, and of a wait.
inline constexpr std::uint32_t kMostSeconds = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kLeastUrgent = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kMostWaitSeconds = std::numeric_limits<std::int32_t>::max();

[[nodiscard]] Span span_of(const std::string& text, const char* option);
[[nodiscard]] std::uint32_t wire_seconds(const std::string& text, const char* option,
                                         std::uint32_t most);
/// The same for HTTP, which knows milliseconds: from `least_ms` to the same `most` seconds.
[[nodiscard]] std::int64_t wire_ms(const std::string& text, const char* option,
                                   std::uint32_t most = kMostSeconds, std::int64_t least_ms = 0);
/// A date of RFC 3339, or milliseconds since 1970: these.
[[nodiscard]] std::int64_t date_of(const std::string& text, const char* option);
/// Numbers are taken as text from the command line: its parser would read 010 as eight.
[[nodiscard]] std::uint64_t number_of(
    const std::string& text, const char* option,
    std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
void check_tube(const std::string& tube);
void check_key(const std::string& key, const char* option);
/// What the command line says of it, even if that is nothing: "".
[[nodiscard]] std::optional<std::string> said(const CLI::Option* option);

/// All of standard input, as the body of a job; `what` is for messages.
[[nodiscard]] std::string read_input(const char* what);

/// A job, with whatever bytes its body has: as they are, with its id on standard error; or as one
/// line of JSON.
void print_job(std::uint64_t id, const std::string& body, bool json);
/// The bytes, and a line feed if they do not end with one.
void print_bytes(const std::string& bytes);

// The server.

/// Where a verb finds the server: what is said behind the verb, else before it.
struct Target {
  Connecting of_verb;
  Connecting of_program;

  [[nodiscard]] Span patience() const;
};

/// Adds the subcommand, with --server and the like.
CLI::App* add_client_verb(CLI::App& program, const char* name, const char* description,
                          Target& target, const Connecting& of_program,
                          Speaks speaks = Speaks::kBeanstalk);

/// A door of the server.
struct Address {
  server::Endpoint at;
  bool tls = false;

  /// As it is said: tls://db7:11300, https://db7:11380 of its HTTP API.
  [[nodiscard]] std::string to_string(bool http = false) const;
};
[[nodiscard]] Address address_of(const Target& target);
/// Of its HTTP API.
[[nodiscard]] Address http_address_of(const Target& target);
/// Whom the client believes, and as whom it comes, by --tls-ca and the like. Null: `address` has no
/// TLS. It is wrong usage to say any of them if neither address has.
[[nodiscard]] std::shared_ptr<server::ClientTlsContext> tls_of(const Target& target,
                                                               const Address& address);
/// What is said by --token-file or a variable; empty: nothing.
[[nodiscard]] std::string token_of(const Target& target);
/// Connects, and logs in if there is a token.
[[nodiscard]] server::BeanstalkClient connect(const Target& target);

using Answer = server::BeanstalkClient::Answer;

/// The failure that an answer is which was not hoped for: NOT_FOUND and the like with status 1,
/// anything else with 3.
[[nodiscard]] Failure failure_of(const Answer& answer);
/// An answer whose first word is `word`; others are failures. `absent` says what is not there if
/// the status is 1.
Answer expect(Result<Answer> result, std::string_view word, const std::string& absent = {});

/// Statistics: "key: value" lines without the head and without quotes.
using Fields = std::vector<std::pair<std::string, std::string>>;
[[nodiscard]] Fields fields_of(const std::string& document);
/// The value of `key`; its absence is a failure.
[[nodiscard]] std::string field(const Fields& fields, std::string_view key);
/// The same as a number; nonsense is 0.
[[nodiscard]] std::uint64_t count_field(const Fields& fields, std::string_view key);

}  // namespace carillon::app
