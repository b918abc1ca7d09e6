// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/options.h"

#include <fmt/format.h>

#include <toml++/toml.h>
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "carillon/base/check.h"
#include "carillon/server/option_file.h"
#include "carillon/server/partitions.h"
#include "carillon/server/units.h"
#include "carillon/server/webhook_loop.h"

namespace carillon::server {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::uint64_t kHourMs = 3'600'000;
/// Of numbers that have no limit of their own; the largest that TOML can say.
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

constexpr std::string_view kLogLevels[] = {"debug", "info", "warning", "error", "off"};
constexpr std::string_view kLogFormats[] = {"text", "json", "journal"};

constexpr Option flag(std::string_view name, bool ServerOptions::* where, std::string_view help) {
  Option option{name, Option::Kind::kFlag, help};
  option.flag = where;
  return option;
}
constexpr Option text(std::string_view name, std::string ServerOptions::* where,
                      std::string_view help, std::span<const std::string_view> words = {}) {
  Option option{name, Option::Kind::kText, help, 0, 0, words};
  option.text = where;
  return option;
}
constexpr Option number(std::string_view name, Option::Kind kind,
                        std::uint64_t ServerOptions::* where, std::uint64_t least,
                        std::uint64_t most, std::string_view help) {
  Option option{name, kind, help, least, most};
  option.number = where;
  return option;
}
constexpr Option count(std::string_view name, std::uint64_t ServerOptions::* where,
                       std::uint64_t least, std::uint64_t most, std::string_view help) {
  return number(name, Option::Kind::kCount, where, least, most, help);
}
constexpr Option size(std::string_view name, std::uint64_t ServerOptions::* where,
                      std::uint64_t least, std::uint64_t most, std::string_view help) {
  return number(name, Option::Kind::kSize, where, least, most, help);
}
constexpr Option duration(std::string_view name, Span ServerOptions::* where,
                          std::uint64_t least_ms, std::uint64_t most_ms, std::string_view help) {
  Option option{name, Option::Kind::kDuration, help, least_ms, most_ms};
  option.duration = where;
  return option;
}

constexpr Option addresses(std::string_view name, std::vector<Endpoint> ServerOptions::* where,
                           std::uint16_t default_port, bool may_be_none, std::string_view help) {
  Option option{name, Option::Kind::kEndpoints, help};
  option.endpoints = where;
  option.default_port = default_port;
  option.may_be_none = may_be_none;
  return option;
}
constexpr Option texts(std::string_view name, std::vector<std::string> ServerOptions::* where,
                       std::string_view help) {
  Option option{name, Option::Kind::kTexts, help};
  option.texts = where;
  return option;
}

constexpr Option of_disk(Option option) {
  option.of_disk = true;
  return option;
}

constexpr Option live(Option option) {
  option.live = true;
  return option;
}

constexpr Option kOptions[] = {
    addresses(
        "listen", &ServerOptions::listen, kDefaultPort, false,
        "Address to listen on: HOST:PORT, [IPV6]:PORT or unix:PATH; may be repeated. HOST alone: "
        "port 11300; :PORT alone: on 127.0.0.1. Without login-tokens there is no authentication: "
        "think "
        "before you leave the loopback"),
    addresses("listen-tls", &ServerOptions::listen_tls, kDefaultPort, true,
              "The same with TLS; needs tls-cert and tls-key"),
    live(text(
        "login-tokens", &ServerOptions::login_tokens,
        "File of the tokens that beanstalk clients have to log in with, as of http-tokens; may "
        "be the same; SIGHUP reads it again")),
    live(duration("login-timeout", &ServerOptions::login_timeout, 1, 24 * kHourMs,
                  "A beanstalk client that has to log in and does not is closed after this")),
    addresses("http-listen", &ServerOptions::http_listen, kDefaultHttpPort, true,
              "Address of the HTTP API and the dashboard, as with listen; HOST alone: port 11380. "
              "none: there is none. Beyond the loopback it needs http-tokens"),
    addresses("https-listen", &ServerOptions::https_listen, kDefaultHttpPort, true,
              "The same with TLS; needs tls-cert and tls-key"),
    of_disk(
        text("data", &ServerOptions::data,
             "Folder of the jobs; made if it does not exist. An answer that promises a job is sent "
             "after the job is on its disk")),
    flag("memory", &ServerOptions::memory, "Keep jobs in memory only; they end with the process"),
    count(
        "partitions", &ServerOptions::partitions, 1, kMaxPartitions,
        "Parts that the tubes are spread over, each with a thread of its own if there are several. "
        "Fixed when the folder is made"),
    live(size("max-job-size", &ServerOptions::max_job_size, 0, protocol::beanstalk::kMaxJobSizeCap,
              "Largest body of a job; a larger one is answered JOB_TOO_BIG")),
    live(
        flag("tubes-in-turn", &ServerOptions::tubes_in_turn,
             "A beanstalk client that watches several tubes gets jobs of one priority from them in "
             "turn, not the oldest of all; HTTP clients always do")),
    of_disk(duration("horizon", &ServerOptions::horizon, 1'000, 24 * kHourMs,
                     "A job due later than this from now waits on disk only and costs no memory")),
    of_disk(size(
        "body-budget", &ServerOptions::body_budget, 0, kMost,
        "Bodies kept in memory by each partition; beyond it they are read back from the disk when "
        "they are reserved. Not with --memory")),
    count("max-jobs-in-memory", &ServerOptions::max_jobs_in_memory, 0, kMost,
          "Jobs held in memory by each partition; beyond it a put is answered OUT_OF_MEMORY. 0: no "
          "limit"),
    count("max-tubes", &ServerOptions::max_tubes, 1, 1'000'000'000,
          "Tubes of each partition; beyond it what would make one is answered OUT_OF_MEMORY"),
    live(count(
        "max-connections", &ServerOptions::max_connections, 1, 10'000'000,
        "Connections at a time, as far as the limit of open files allows; one more is answered "
        "OUT_OF_MEMORY and closed")),
    live(text("http-tokens", &ServerOptions::http_tokens,
              "File of the bearer tokens of the HTTP API: a line 'ROLES SHA256 [NAME]' each; "
              "SIGHUP reads "
              "it again")),
    flag("http-insecure", &ServerOptions::http_insecure,
         "Serve HTTP beyond the loopback though anybody who reaches it may do anything"),
    live(texts(
        "http-allowed-host", &ServerOptions::http_allowed_host,
        "Name, beside localhost and numeric addresses, by which HTTP clients may call the server "
        "when there are no tokens; may be repeated")),
    live(text("tls-cert", &ServerOptions::tls_cert,
              "Certificate of the server, PEM, its chain behind it")),
    live(text("tls-key", &ServerOptions::tls_key, "Its private key, PEM")),
    live(text("tls-client-ca", &ServerOptions::tls_client_ca,
              "Certificates, PEM, of which TLS clients need one to be let in")),
    live(count("http-max-connections", &ServerOptions::http_max_connections, 1, 10'000'000,
               "HTTP connections at a time, as far as the limit of open files allows; one more is "
               "answered 503 and closed")),
    live(count("http-max-requests", &ServerOptions::http_max_requests, 0, kMost,
               "Requests on one HTTP connection before it is closed. 0: no limit")),
    live(size("http-max-header", &ServerOptions::http_max_header, 1024, kMiB,
              "Request line and headers of an HTTP request; a larger one is answered 431")),
    live(size("http-max-body", &ServerOptions::http_max_body, 1024, kGiB,
              "Body of an HTTP request; a larger one is answered 413")),
    live(size("http-max-bodies", &ServerOptions::http_max_bodies, 1024, 64 * kGiB,
              "Bodies of HTTP requests in work, together; beyond it they are answered 503")),
    live(duration("http-idle-timeout", &ServerOptions::http_idle_timeout, 1, 24 * kHourMs,
                  "An HTTP connection without a request is closed after this")),
    live(duration("http-header-timeout", &ServerOptions::http_header_timeout, 1, 24 * kHourMs,
                  "Time for the header of an HTTP request to come")),
    live(duration("http-body-timeout", &ServerOptions::http_body_timeout, 1, 24 * kHourMs,
                  "Time for the body of an HTTP request to come")),
    live(duration("http-write-timeout", &ServerOptions::http_write_timeout, 1, 24 * kHourMs,
                  "An HTTP client that takes nothing of what it is sent for this long is closed")),
    live(size("max-unsent", &ServerOptions::max_unsent, 1024, kGiB,
              "Answers that a connection may leave unread before its commands are no longer read")),
    live(count("max-unanswered", &ServerOptions::max_unanswered, 1, 10'000'000,
               "Commands of a connection in work before no more are read")),
    live(size("max-unanswered-size", &ServerOptions::max_unanswered_size, 1, 64 * kGiB,
              "Bodies in those commands before no more are read")),
    count("max-batch-mutations", &ServerOptions::max_batch_mutations, 1, 100'000'000,
          "Changes of a partition waiting for the disk before no commands are read"),
    size("max-batch-size", &ServerOptions::max_batch_size, 1, 64 * kGiB,
         "Bodies in those changes before no commands are read"),
    of_disk(size("memtable-size", &ServerOptions::memtable_size, kMiB, 64 * kGiB,
                 "Memory of the store for what is written and not sorted yet")),
    of_disk(size("block-cache-size", &ServerOptions::block_cache_size, kMiB, 1024 * kGiB,
                 "Memory of the store for what is read")),
    of_disk(size("max-log-size", &ServerOptions::max_log_size, kMiB, 1024 * kGiB,
                 "Log that a start after a kill has to replay at most")),
    of_disk(size(
        "min-free-space", &ServerOptions::min_free_space, 0, 1024 * kGiB,
        "With less free on the disk, puts are answered OUT_OF_MEMORY; everything else goes on")),
    live(of_disk(text(
        "backup-folder", &ServerOptions::backup_folder,
        "Folder in which backups are made on request; made if it does not exist. Without it none "
        "are made"))),
    of_disk(flag("accept-loss", &ServerOptions::accept_loss,
                 "Open a folder even if jobs that were promised are missing from it")),
    live(flag("hold", &ServerOptions::hold,
              "Post no webhooks and have schedules put nothing, so that a restored copy can be "
              "tried out; until SIGHUP finds it false in the file")),
    live(texts("webhook-allow", &ServerOptions::webhook_allow,
               "Addresses that webhooks may connect to though they are not public: a block such as "
               "10.20.0.0/16, or one address; may be repeated")),
    live(count("webhook-connections", &ServerOptions::webhook_connections, 1, 100'000,
               "Connections of all webhooks together")),
    live(text("webhook-ca-file", &ServerOptions::webhook_ca_file,
              "Certificates of authorities, PEM, for webhooks, instead of the system's")),
    live(count("metrics-tubes", &ServerOptions::metrics_tubes, 0, 100'000,
               "Tubes with series of their own in the metrics; the rest are summed")),
    live(duration(
        "drain-timeout", &ServerOptions::drain_timeout, 0, kHourMs,
        "On SIGTERM, the time to answer what has been received before the process ends anyway")),
    live(text("log-level", &ServerOptions::log_level, "Least important messages to log on stderr",
              kLogLevels)),
    live(text("log-format", &ServerOptions::log_format,
              "How to log: lines for people, a JSON object a line, or lines for systemd's journal",
              kLogFormats)),
};

Error out_of_range(const Option& option, std::string_view value) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: {} is out of range ({})", option.name, value, option.limits())};
}

Error malformed(const Option& option, Error error) {
  error.message += fmt::format(" ({})", option.limits());
  return std::move(error).prefixed(option.name);
}

Result<void> set_number(const Option& option, ServerOptions& options, std::string_view value) {
  std::uint64_t parsed = 0;
  if (option.kind == Option::Kind::kSize) {
    Result<std::uint64_t> bytes = parse_size(value);
    if (!bytes) return malformed(option, std::move(bytes).error());
    parsed = *bytes;
  } else {
    Result<std::uint64_t> count = parse_count(value);
    if (!count) return malformed(option, std::move(count).error());
    parsed = *count;
  }
  if (parsed < option.least || parsed > option.most) return out_of_range(option, value);
  options.*option.number = parsed;
  return {};
}

Result<void> set_duration(const Option& option, ServerOptions& options, std::string_view value) {
  Result<Span> span = parse_duration(value);
  if (!span) return malformed(option, std::move(span).error());
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(*span).count();
  if (std::cmp_less(ms, option.least) || std::cmp_greater(ms, option.most)) {
    return out_of_range(option, value);
  }
  options.*option.duration = *span;
  return {};
}

Result<void> set_text(const Option& option, ServerOptions& options, std::string_view value) {
  const auto& words = option.words;
  if (!words.empty() && std::find(words.begin(), words.end(), value) == words.end()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}: '{}' is not one of {}", option.name, value, option.limits())};
  }
  if (value.empty()) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: is empty", option.name)};
  }
  options.*option.text = value;
  return {};
}

/// A value of the file as text that set() takes, if its type is one that the option allows.
Result<std::string> text_of(const Option& option, const toml::node& node) {
  using Kind = Option::Kind;
  if (const auto* flag_value = node.as_boolean(); flag_value && option.kind == Kind::kFlag) {
    return std::string(flag_value->get() ? "true" : "false");
  }
  if (const auto* integer = node.as_integer();
      integer && (option.kind == Kind::kCount || option.kind == Kind::kSize)) {
    return std::to_string(integer->get());
  }
  if (const auto* string = node.as_string();
      string && option.kind != Kind::kFlag && option.kind != Kind::kCount) {
    return string->get();
  }
  const std::string_view wanted = option.kind == Kind::kFlag ? "true or false"
                                  : option.kind == Kind::kEndpoints
                                      ? "an address such as \"127.0.0.1:11300\", or a list of them"
                                  : option.kind == Kind::kCount    ? "a number"
                                  : option.kind == Kind::kSize     ? "a number of bytes or a string"
                                  : option.kind == Kind::kDuration ? "a string such as \"30s\""
                                                                   : "a string";
  return Error{ErrorCode::kInvalidArgument, fmt::format("{}: has to be {}", option.name, wanted)};
}

Result<void> set_from_node(const Option& option, const toml::node& node, ServerOptions& options) {
  if (option.is_list()) {
    option.clear(options);
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) {
        Result<std::string> item_text = text_of(option, item);
        if (!item_text) return std::move(item_text).error();
        if (Result<void> set = option.set(options, *item_text); !set) return set;
      }
      if (list->empty() && option.kind == Option::Kind::kEndpoints) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: is empty{}", option.name,
                                 option.may_be_none ? "; without any it is \"none\"" : "")};
      }
      return {};
    }
  }
  Result<std::string> value = text_of(option, node);
  if (!value) return std::move(value).error();
  return option.set(options, *value);
}

}  // namespace

void Option::clear(ServerOptions& options) const {
  if (endpoints != nullptr) (options.*endpoints).clear();
  if (texts != nullptr) (options.*texts).clear();
}

Result<void> Option::set(ServerOptions& options, std::string_view value) const {
  // The operating system would take what is before it for the whole.
  if (value.find('\0') != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: has a NUL byte in it", name)};
  }
  options.said.insert(name);
  switch (kind) {
    case Kind::kFlag:
      if (value != "true" && value != "false") {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: '{}' is neither true nor false", name, value)};
      }
      options.*flag = value == "true";
      return {};
    case Kind::kCount:
    case Kind::kSize: return set_number(*this, options, value);
    case Kind::kDuration: return set_duration(*this, options, value);
    case Kind::kText: return set_text(*this, options, value);
    case Kind::kEndpoints: {
      if (may_be_none && value == "none") return {};
      Result<Endpoint> endpoint = Endpoint::parse(value, default_port);
      if (!endpoint) return std::move(endpoint).error().prefixed(name);
      (options.*endpoints).push_back(*endpoint);
      return {};
    }
    case Kind::kTexts:
      if (value.empty()) {
        return Error{ErrorCode::kInvalidArgument, fmt::format("{}: is empty", name)};
      }
      (options.*texts).emplace_back(value);
      return {};
  }
  CARILLON_CHECK(false, "option kind ", static_cast<int>(kind));
}

void Option::copy(const ServerOptions& from, ServerOptions& to) const {
  switch (kind) {
    case Kind::kFlag: to.*flag = from.*flag; return;
    case Kind::kCount:
    case Kind::kSize: to.*number = from.*number; return;
    case Kind::kDuration: to.*duration = from.*duration; return;
    case Kind::kText: to.*text = from.*text; return;
    case Kind::kEndpoints: to.*endpoints = from.*endpoints; return;
    case Kind::kTexts: to.*texts = from.*texts; return;
  }
  CARILLON_CHECK(false, "option kind ", static_cast<int>(kind));
}

std::string Option::value(const ServerOptions& options) const {
  switch (kind) {
    case Kind::kFlag: return options.*flag ? "true" : "false";
    case Kind::kCount: return std::to_string(options.*number);
    case Kind::kSize: return format_size(options.*number);
    case Kind::kDuration: return format_duration(options.*duration);
    case Kind::kText: return options.*text;
    case Kind::kEndpoints:
    case Kind::kTexts: return fmt::format("{}", fmt::join(values(options), " "));
  }
  CARILLON_CHECK(false, "option kind ", static_cast<int>(kind));
}

std::vector<std::string> Option::values(const ServerOptions& options) const {
  std::vector<std::string> list;
  if (texts != nullptr) list = options.*texts;
  if (endpoints != nullptr) {
    for (const Endpoint& endpoint : options.*endpoints) list.push_back(endpoint.to_string());
    if (list.empty()) list.emplace_back("none");
  }
  return list;
}

std::string Option::limits() const {
  switch (kind) {
    case Kind::kFlag: return "true, false";
    case Kind::kCount:
      return most == kMost ? fmt::format("at least {}", least)
                           : fmt::format("{} to {}", least, most);
    case Kind::kSize:
      return most == kMost ? fmt::format("at least {}", format_size(least))
                           : fmt::format("{} to {}", format_size(least), format_size(most));
    case Kind::kDuration:
      return fmt::format(
          "{} to {}", format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(least))),
          format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(most))));
    case Kind::kText: return fmt::format("{}", fmt::join(words, ", "));
    case Kind::kEndpoints:
    case Kind::kTexts: return "";
  }
  CARILLON_CHECK(false, "option kind ", static_cast<int>(kind));
}

std::span<const Option> option_table() { return kOptions; }

Result<void> parse_config(std::string_view text, std::string_view name, ServerOptions& options) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{}:{}: {}", name, error.source().begin.line, error.description())};
  }
  for (const auto& [key, node] : table) {
    const std::string_view wanted = key.str();
    const auto place = [&, line = key.source().begin.line] {
      return fmt::format("{}:{}", name, line);
    };
    const auto found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                    [&](const Option& option) { return option.name == wanted; });
    if (found == std::end(kOptions)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("{}: there is no option '{}'", place(), wanted)};
    }
    if (Result<void> set = set_from_node(*found, node, options); !set) {
      return std::move(set).error().prefixed(place());
    }
  }
  return {};
}

Result<void> load_config(const std::string& path, ServerOptions& options) {
  Result<std::string> text = read_option_file(path, "the configuration file");
  if (!text) return std::move(text).error();
  return parse_config(*text, path, options);
}

namespace {

Error refusal(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_http_options(const ServerOptions& options) {
  const bool has_pair = !options.tls_cert.empty() && !options.tls_key.empty();
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return refusal("tls-cert and tls-key: one is of no use without the other");
  }
  if (!options.listen_tls.empty() && !has_pair) {
    return refusal("listen-tls: needs tls-cert and tls-key");
  }
  if (!options.https_listen.empty() && !has_pair) {
    return refusal("https-listen: needs tls-cert and tls-key");
  }
  if (!options.http_tokens.empty() || options.http_insecure) return {};
  const auto check = [&](std::string_view name, const std::vector<Endpoint>& endpoints) {
    for (const Endpoint& endpoint : endpoints) {
      if (endpoint.is_local()) continue;
      return Result<void>(refusal(fmt::format(
          "{}: {} is not of the loopback, and anybody who reaches it could do anything: "
          "give http-tokens, or http-insecure if that is meant",
          name, endpoint.to_string())));
    }
    return Result<void>();
  };
  if (Result<void> checked = check("http-listen", options.http_listen); !checked) return checked;
  // Clients that need a certificate are known.
  return options.tls_client_ca.empty() ? check("https-listen", options.https_listen)
                                       : Result<void>();
}

}  // namespace

Result<void> check_options(const ServerOptions& options) {
  if (options.listen.empty() && options.listen_tls.empty())
    return refusal("listen: there has to be an address");
  if (options.memory && (options.said.contains("data") || options.data != ServerOptions{}.data)) {
    return refusal("memory and data exclude each other");
  }
  if (Result<std::vector<AddressBlock>> blocks = allowed_blocks(options); !blocks) {
    return std::move(blocks).error();
  }
  return check_http_options(options);
}

std::vector<std::string> idle_options(const ServerOptions& options) {
  std::vector<std::string> lines;
  for (const Option& option : kOptions) {
    if (!options.memory || !option.of_disk || !options.said.contains(option.name)) continue;
    lines.push_back(fmt::format("{} has no effect with memory", option.name));
  }
  return lines;
}

}  // namespace carillon::server
