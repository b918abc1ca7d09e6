// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a server can be told, in one table that the command line, the configuration file and the
/// reference page are made from.

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/base/time.h"
#include "carillon/protocol/beanstalk/request.h"
#include "carillon/server/endpoint.h"

namespace carillon::server {

/// The options of `carillon serve`, with their defaults. Meaning, unit and limits of each: the
/// table option_table(), and docs/reference/config.md.
struct ServerOptions {
  std::vector<Endpoint> listen = {Endpoint{}};
  std::vector<Endpoint> listen_tls = {};
  std::string login_tokens;
  Span login_timeout = std::chrono::seconds(10);
  std::vector<Endpoint> http_listen = {Endpoint{{}, kDefaultHttpPort, {}}};
  std::vector<Endpoint> https_listen = {};
  std::string data = "carillon-data";
  bool memory = false;
  std::uint64_t partitions = 1;
  std::uint64_t max_job_size = protocol::beanstalk::kDefaultMaxJobSize;
  Span horizon = std::chrono::minutes(5);
  std::uint64_t body_budget = std::uint64_t{32} << 20;
  std::uint64_t max_jobs_in_memory = 0;
  std::uint64_t max_tubes = 100'000;
  std::uint64_t max_connections = 16'384;
  std::uint64_t max_unsent = std::uint64_t{1} << 20;
  std::uint64_t max_unanswered = 16'384;
  std::uint64_t max_unanswered_size = std::uint64_t{16} << 20;
  std::uint64_t max_batch_mutations = 50'000;
  std::uint64_t max_batch_size = std::uint64_t{32} << 20;
  std::uint64_t memtable_size = std::uint64_t{48} << 20;
  std::uint64_t block_cache_size = std::uint64_t{48} << 20;
  std::uint64_t max_log_size = std::uint64_t{128} << 20;
  std::uint64_t min_free_space = std::uint64_t{128} << 20;
  std::string http_tokens;
  bool http_insecure = false;
  bool tubes_in_turn = false;
  std::vector<std::string> http_allowed_host;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  std::uint64_t http_max_connections = 4'096;
  std::uint64_t http_max_requests = 0;
  std::uint64_t http_max_header = std::uint64_t{16} << 10;
  std::uint64_t http_max_body = std::uint64_t{16} << 20;
  std::uint64_t http_max_bodies = std::uint64_t{256} << 20;
  Span http_idle_timeout = std::chrono::seconds(75);
  Span http_header_timeout = std::chrono::seconds(10);
  Span http_body_timeout = std::chrono::seconds(60);
  Span http_write_timeout = std::chrono::seconds(30);
  std::string backup_folder;
  bool accept_loss = false;
  bool hold = false;
  std::vector<std::string> webhook_allow;
  std::uint64_t webhook_connections = 1'000;
  std::string webhook_ca_file;
  std::uint64_t metrics_tubes = 100;
  Span drain_timeout = std::chrono::seconds(10);
  std::string log_level = "info";
  std::string log_format = "text";

  /// Names of the options that somebody has set, if only to the default.
  std::set<std::string_view> said;
};

/// One option: its name is the flag `--name` and the key `name` of the file.
struct Option {
  enum class Kind : std::uint8_t {
    kFlag,       ///< true | false
    kCount,      ///< a number
    kSize,       ///< bytes
    kDuration,   ///< a span
    kText,       ///< one of `words` if there are any
    kEndpoints,  ///< one or several, or none
    kTexts,      ///< none or several
  };
  std::string_view name;
  Kind kind = Kind::kText;
  std::string_view help;
  /// Inclusive; of a duration in milliseconds.
  std::uint64_t least = 0;
  std::uint64_t most = 0;
  std::span<const std::string_view> words = {};
  /// Means nothing with `memory`.
  bool of_disk = false;
  /// Can be changed while the server runs, by SIGHUP.
  bool live = false;

  // Where the value lies; that of `kind`.
  bool ServerOptions::* flag = nullptr;
  std::uint64_t ServerOptions::* number = nullptr;
  Span ServerOptions::* duration = nullptr;
  std::string ServerOptions::* text = nullptr;
  std::vector<Endpoint> ServerOptions::* endpoints = nullptr;
  std::vector<std::string> ServerOptions::* texts = nullptr;

  /// Of endpoints: the port of an address that names none, and whether there may be none at all.
  std::uint16_t default_port = kDefaultPort;
  bool may_be_none = false;

  /// Whether it is a list: a flag that may be repeated.
  [[nodiscard]] bool is_list() const noexcept {
    return kind == Kind::kEndpoints || kind == Kind::kTexts;
  }
  /// Makes a list empty, to be added to.
  void clear(ServerOptions& options) const;
  /// Sets it in `options` from text as on the command line. A list: adds one. Errors name the
  /// option and its limits.
  Result<void> set(ServerOptions& options, std::string_view value) const;
  /// Sets it in `to` as it is in `from`.
  void copy(const ServerOptions& from, ServerOptions& to) const;
  /// As set() would take it.
  [[nodiscard]] std::string value(const ServerOptions& options) const;
  /// The elements of a list, as set() would take them.
  [[nodiscard]] std::vector<std::string> values(const ServerOptions& options) const;
  /// "1 to 64", "100ms to 1d", "info, debug ..."; empty if anything goes.
  [[nodiscard]] std::string limits() const;
};

/// Every option, in the order in which people read about them.
[[nodiscard]] std::span<const Option> option_table();

/// Sets what the TOML file at `path`, of at most 1 MiB, says. An unknown key, a wrong type or a
/// value out of range is an error that names the key, the line and the limit.
Result<void> load_config(const std::string& path, ServerOptions& options);
/// The same from text; `name` is for messages.
Result<void> parse_config(std::string_view text, std::string_view name, ServerOptions& options);

/// What options cannot be together, or not without another.
Result<void> check_options(const ServerOptions& options);
/// What has been said to no effect: a line for the log each.
[[nodiscard]] std::vector<std::string> idle_options(const ServerOptions& options);

}  // namespace carillon::server
