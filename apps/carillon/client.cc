// SPDX-License-Identifier: Apache-2.0
#include "apps/carillon/client.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <system_error>

#include "apps/carillon/json.h"
#include "carillon/protocol/beanstalk/request.h"
#include "carillon/protocol/http/job_requests.h"
#include "carillon/protocol/http/time_text.h"
#include "carillon/server/units.h"

namespace carillon::app {
namespace {

constexpr const char* kDefaultServer = "127.0.0.1:11300";
constexpr const char* kDefaultPatience = "5s";
constexpr const char* kServerVariable = "CARILLON_SERVER";
constexpr const char* kHttpVariable = "CARILLON_HTTP";
constexpr const char* kTlsCaVariable = "CARILLON_TLS_CA";
constexpr const char* kTlsCertVariable = "CARILLON_TLS_CERT";
constexpr const char* kTlsKeyVariable = "CARILLON_TLS_KEY";
constexpr const char* kTokenVariable = "CARILLON_TOKEN";
constexpr const char* kTokenFileVariable = "CARILLON_TOKEN_FILE";
/// Of the file of a token, and of a token.
constexpr std::size_t kMaxTokenFile = 4096;
constexpr std::size_t kMaxToken = 200;

}  // namespace

std::string name_of(const CLI::App& verb) {
  const CLI::App* parent = verb.get_parent();
  if (parent == nullptr || parent->get_parent() == nullptr) return verb.get_name();
  return parent->get_name() + " " + verb.get_name();
}

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

std::int64_t wire_ms(const std::string& text, const char* option, std::uint32_t most,
                     std::int64_t least_ms) {
  const Span span = span_of(text, option);
  const std::int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(span).count();
  if (span > std::chrono::seconds(most) || ms < least_ms) {
    throw Failure{
        kUsage, fmt::format("{}: {} is out of range ({}ms to {}s)", option, text, least_ms, most)};
  }
  return ms;
}

std::int64_t date_of(const std::string& text, const char* option) {
  if (const std::optional<std::int64_t> ms = protocol::http::parse_time(text)) return *ms;
  const Result<std::uint64_t> number = server::parse_count(text);
  if (number && *number <= protocol::http::kLastTimeMs) return static_cast<std::int64_t>(*number);
  throw Failure{kUsage, fmt::format("{}: '{}' is neither a date from 1970 to 9999, as "
                                    "2030-01-31T12:00:00Z, nor milliseconds since 1970",
                                    option, text)};
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

std::string read_input(const char* what) {
  std::string bytes;
  char buffer[64 * 1024];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, stdin)) {
    bytes.append(buffer, got);
    if (bytes.size() > protocol::beanstalk::kMaxJobSizeCap) {
      throw Failure{kUsage, fmt::format("{}: standard input has more than the {} bytes of any job",
                                        what, protocol::beanstalk::kMaxJobSizeCap)};
    }
  }
  if (std::ferror(stdin) != 0) {
    throw Failure{kUsage, fmt::format("{}: standard input cannot be read", what)};
  }
  return bytes;
}

void print_job(std::uint64_t id, const std::string& body, bool json) {
  if (json) {
    JsonLine job;
    job.number("id", id).number("size", body.size()).bytes("body", body);
    fmt::print("{}\n", job.str());
    return;
  }
  print_error(std::to_string(id));
  print_bytes(body);
}

void print_bytes(const std::string& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  if (!bytes.ends_with('\n')) std::fputc('\n', stdout);
}

namespace {

/// What was said behind the verb, else before it, else by the variable; and which of them it was.
struct Said {
  std::optional<std::string> value;
  const char* by = "";
};

Said said_by(const CLI::Option* of_verb, const CLI::Option* of_program, const char* option,
             const char* variable) {
  std::optional<std::string> value = of_verb == nullptr ? std::nullopt : said(of_verb);
  if (!value) value = said(of_program);
  if (value) return {std::move(value), option};
  if (const char* of_variable = std::getenv(variable)) return {of_variable, variable};
  return {};
}

Said server_of(const Target& target) {
  return said_by(target.of_verb.server, target.of_program.server, "--server", kServerVariable);
}

std::string checked_token(std::string_view text, const std::string& by) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const bool printable =
      std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  // Never the token itself: somebody may be looking.
  if (text.empty() || text.size() > kMaxToken || !printable) {
    throw Failure{kUsage, fmt::format("{}: a token is 1 to {} printable bytes without spaces", by,
                                      kMaxToken)};
  }
  return std::string(text);
}

std::string read_token(const std::string& path, const char* by) {
  const auto failed = [&](const std::string& why) {
    return Failure{kUsage, fmt::format("{}: '{}' cannot be read: {}", by, path, why)};
  };
  struct Close {
    void operator()(std::FILE* file) const noexcept { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) throw failed(std::generic_category().message(errno));
  std::string text(kMaxTokenFile + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) throw failed(std::generic_category().message(errno));
  return checked_token(text, fmt::format("{}: '{}'", by, path));
}

/// An address behind `plain` or `encrypted`, or behind neither, which is plain.
Address parse_address(std::string_view text, const char* by, std::uint16_t default_port,
                      std::string_view plain, std::string_view encrypted) {
  Address address;
  const bool is_url = text.starts_with(plain) || text.starts_with(encrypted);
  if (is_url) {
    address.tls = text.starts_with(encrypted);
    text.remove_prefix(address.tls ? encrypted.size() : plain.size());
    if (text.ends_with('/')) text.remove_suffix(1);  // As a browser has it.
  }
  if (!text.starts_with("unix:") && text.find('/') != std::string_view::npos) {
    throw Failure{kUsage, fmt::format("{}: '{}' is not an address: HOST:PORT, {}HOST:PORT or "
                                      "unix:PATH, and nothing behind it",
                                      by, text, encrypted)};
  }
  Result<server::Endpoint> at = server::Endpoint::parse(text, default_port);
  if (!at) throw Failure{kUsage, fmt::format("{}: {}", by, at.error().message)};
  address.at = std::move(*at);
  return address;
}

}  // namespace

std::string Address::to_string(bool http) const {
  return (!tls ? "" : http ? "https://" : "tls://") + at.to_string();
}

Address address_of(const Target& target) {
  const Said server = server_of(target);
  return parse_address(server.value.value_or(kDefaultServer), server.by, server::kDefaultPort,
                       "tcp://", "tls://");
}

Address http_address_of(const Target& target) {
  const Said http = said_by(target.of_verb.http, target.of_program.http, "--http", kHttpVariable);
  if (http.value) {
    return parse_address(*http.value, http.by, server::kDefaultHttpPort, "http://", "https://");
  }
  // The machine that --server names, and never without TLS what is to be with it; a UNIX socket is
  // on this one.
  Address address = address_of(target);
  address.at = {address.at.is_unix() ? std::string() : std::move(address.at.host),
                server::kDefaultHttpPort,
                {}};
  return address;
}

std::shared_ptr<server::ClientTlsContext> tls_of(const Target& target, const Address& address) {
  const auto file = [&target](auto option, const char* name, const char* variable) {
    return said_by(target.of_verb.*option, target.of_program.*option, name, variable);
  };
  const Said ca = file(&Connecting::tls_ca, "--tls-ca", kTlsCaVariable);
  const Said cert = file(&Connecting::tls_cert, "--tls-cert", kTlsCertVariable);
  const Said key = file(&Connecting::tls_key, "--tls-key", kTlsKeyVariable);
  if (!address.tls) {
    for (const Said* said : {&ca, &cert, &key}) {
      // The variables may be there for other servers.
      if (!std::string_view(said->by).starts_with("--") || address_of(target).tls ||
          http_address_of(target).tls) {
        continue;
      }
      throw Failure{kUsage, fmt::format("{}: the server is asked without TLS: say --server "
                                        "tls://HOST:PORT or --http https://HOST:PORT",
                                        said->by)};
    }
    return nullptr;
  }
  if (cert.value.has_value() != key.value.has_value()) {
    throw Failure{kUsage, fmt::format("{}: needs {}", cert.value ? cert.by : key.by,
                                      cert.value ? "--tls-key" : "--tls-cert")};
  }
  for (const Said* said : {&ca, &cert, &key}) {
    if (said->value && said->value->empty()) {
      throw Failure{kUsage, fmt::format("{}: names no file", said->by)};
    }
  }
  return value_or_fail(
      server::ClientTlsContext::load(
          {ca.value.value_or(""), cert.value.value_or(""), key.value.value_or("")}),
      kUsage);
}

std::string token_of(const Target& target) {
  const Said file = said_by(target.of_verb.token_file, target.of_program.token_file, "--token-file",
                            kTokenFileVariable);
  if (file.value) return read_token(*file.value, file.by);
  if (const char* token = std::getenv(kTokenVariable)) return checked_token(token, kTokenVariable);
  return {};
}

namespace {

void log_in(server::BeanstalkClient& client, const std::string& token) {
  if (token.empty()) return;
  const Answer answer = value_or_fail(client.ask("login " + token), kServerError);
  // A server that wants no login does not know the command.
  if (answer.is("LOGGED_IN") || answer.is("UNKNOWN_COMMAND")) return;
  if (answer.is("LOGIN_FAILED")) {
    throw Failure{kServerError, "LOGIN_FAILED: the server does not know the token"};
  }
  throw failure_of(answer);
}

}  // namespace

server::BeanstalkClient connect(const Target& target) {
  const Address address = address_of(target);
  server::BeanstalkClient client =
      value_or_fail(server::BeanstalkClient::connect(address.at, target.patience(),
                                                     tls_of(target, address).get()),
                    kServerError);
  log_in(client, token_of(target));
  return client;
}

std::string hint_for(const std::string& message, const char* option) {
  const auto tells = [&message](const char* what) {
    return message.find(what) != std::string::npos;
  };
  const bool http = std::string_view(option) == "--http";
  if (tells("if it speaks TLS there") || tells("the server speaks TLS there")) {
    return fmt::format(": {} {}HOST:PORT", option, http ? "https://" : "tls://");
  }
  if (tells("the server wants a certificate")) return ": --tls-cert FILE and --tls-key FILE";
  if (tells("is not believed")) {
    return "; --tls-ca FILE names the authorities to believe, and the host of the address has to "
           "be one that the certificate is for";
  }
  const std::string refused = std::generic_category().message(ECONNREFUSED);
  if (message.find(refused) == std::string::npos) return {};
  return fmt::format(
      "; does a server run there? {} or the variable {} says where it is, and "
      "carillon serve starts one",
      option, http ? kHttpVariable : kServerVariable);
}

namespace {

/// What a refusal means, and what can be done about it.
const char* meaning_of(const Answer& refusal) {
  if (refusal.is("DRAINING")) {
    return ": the server takes no more jobs: it is being drained (SIGUSR1) or stopped. Try again "
           "when it has been started anew, or another one";
  }
  if (refusal.is("OUT_OF_MEMORY")) {
    return ": the server has no room for more: one of its limits (max-jobs-in-memory, max-tubes, "
           "the max_jobs of the tube) is reached, or its disk has less than min-free-space or "
           "cannot be written. Its log and GET /readyz say which";
  }
  if (refusal.is("JOB_TOO_BIG")) return ": the body is larger than the max-job-size of the server";
  if (refusal.is("INTERNAL_ERROR")) {
    return ": the server cannot use its store at present, and its log says why. Whether this was "
           "done is seen when it can again";
  }
  // How a server with login-tokens refuses what a token does not allow.
  if (refusal.is("UNKNOWN_COMMAND")) {
    return "; if the server has login-tokens: by --token-file, or not with this token";
  }
  return "";
}

}  // namespace

Failure failure_of(const Answer& answer) {
  for (const char* absent : {"NOT_FOUND", "TIMED_OUT", "DEADLINE_SOON"}) {
    if (answer.line == absent) return {kNotFound, answer.line};
  }
  for (const char* refusal : {"BAD_FORMAT", "BURIED", "DRAINING", "EXPECTED_CRLF", "INTERNAL_ERROR",
                              "JOB_TOO_BIG", "NOT_IGNORED", "OUT_OF_MEMORY", "UNKNOWN_COMMAND"}) {
    if (!answer.is(refusal)) continue;
    return {kServerError, answer.line + meaning_of(answer)};
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

void check_key(const std::string& key, const char* option) {
  if (!protocol::http::is_key(key)) {
    throw Failure{kUsage, fmt::format("{}: is not {}", option, protocol::http::kKeyLimit)};
  }
}

bool Connecting::said() const {
  return server->count() + http->count() + token_file->count() + tls_ca->count() +
             tls_cert->count() + tls_key->count() + patience->count() >
         0;
}

Connecting add_connecting(CLI::App& app, Speaks speaks) {
  const auto add = [&app](const char* name, const char* type, const std::string& help) {
    return app.add_option(name, help)
        ->type_name(type)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  };
  Connecting connecting;
  connecting.server =
      add("-s,--server", "ADDRESS",
          fmt::format("Address of the server: HOST:PORT, tls://HOST:PORT or unix:PATH; or the "
                      "variable {} [{}]",
                      kServerVariable, kDefaultServer));
  if (speaks != Speaks::kBeanstalk) {
    connecting.http = add("--http", "ADDRESS",
                          fmt::format("Address of its HTTP API, https://HOST:PORT if with TLS; or "
                                      "the variable {} [as --server, port {}]",
                                      kHttpVariable, server::kDefaultHttpPort));
  }
  connecting.token_file =
      add("--token-file", "FILE",
          fmt::format("File of the token to show; or the variable {}, or {} for the token itself",
                      kTokenFileVariable, kTokenVariable));
  connecting.tls_ca =
      add("--tls-ca", "FILE",
          fmt::format("Authorities to believe, PEM; or the variable {} [those of the system]",
                      kTlsCaVariable));
  connecting.tls_cert =
      add("--tls-cert", "FILE",
          fmt::format("Certificate to show, PEM; or the variable {}", kTlsCertVariable));
  connecting.tls_key =
      add("--tls-key", "FILE", fmt::format("Its key, PEM; or the variable {}", kTlsKeyVariable));
  connecting.patience = add("--patience", "TIME",
                            fmt::format("How long to wait for the server [{}]", kDefaultPatience));
  return connecting;
}

CLI::App* add_client_verb(CLI::App& program, const char* name, const char* description,
                          Target& target, const Connecting& of_program, Speaks speaks) {
  CLI::App* verb = program.add_subcommand(name, description);
  target.of_verb = add_connecting(*verb, speaks);
  target.of_program = of_program;
  return verb;
}

}  // namespace carillon::app
