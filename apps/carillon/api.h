// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The server's HTTP API, as the verbs that need it ask it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/carillon/client.h"
#include "apps/carillon/json.h"
#include "carillon/protocol/http/json_document.h"

namespace carillon::app {

/// A value of an answer. What is not there is empty, and so is what is in it.
///
/// Lifetime: keeps its document.
class JsonView {
 public:
  using Document = std::shared_ptr<const protocol::http::JsonDocument>;

  JsonView() = default;
  /// The whole.
  explicit JsonView(Document document) : document_(std::move(document)), at_(0) {}

  [[nodiscard]] JsonView operator[](std::string_view name) const;
  /// Of an array.
  [[nodiscard]] std::vector<JsonView> items() const;
  /// Of an object: names and values.
  [[nodiscard]] std::vector<std::pair<std::string, JsonView>> members() const;

  [[nodiscard]] bool exists() const noexcept { return document_ != nullptr; }
  [[nodiscard]] bool is_object() const noexcept;
  [[nodiscard]] std::int64_t number() const noexcept;
  [[nodiscard]] bool flag() const noexcept;
  /// Of text the text, of numbers and flags what JSON has for them; else empty.
  [[nodiscard]] std::string text() const;
  /// As JSON on one line. Ids, which the API has as strings, are numbers, as in all that --json
  /// prints.
  [[nodiscard]] std::string json() const;

 private:
  JsonView(Document document, std::uint32_t at) : document_(std::move(document)), at_(at) {}
  [[nodiscard]] const protocol::http::Value* value() const noexcept;

  Document document_;
  std::uint32_t at_ = 0;
};

/// An answer that is a success; or a problem, if those were asked for.
struct ApiAnswer {
  int status = 0;
  JsonView json;  ///< Nothing if there is no body.
};

/// Threads: one object, one thread.
class Api {
 public:
  /// Failures of the address and the token are wrong usage.
  explicit Api(const Target& target);

  /// Asks, and waits for `extra` longer than the patience. Problems are failures.
  [[nodiscard]] ApiAnswer ask(std::string_view method, const std::string& path,
                              const std::string& json = {}, Span extra = {}) const;
  /// The same, but what is not found or in conflict (404 and 409) is an answer.
  [[nodiscard]] ApiAnswer try_to(std::string_view method, const std::string& path,
                                 const std::string& json = {}) const;

 private:
  [[nodiscard]] ApiAnswer call(std::string_view method, const std::string& path,
                               const std::string& json, Span extra) const;

  Address at_;
  std::shared_ptr<server::ClientTlsContext> tls_;
  std::string token_;
  Span patience_;
};

/// The failure that a problem is: what is not there or not so has status 1, a wrong value 2, else
/// 3. It names the option and the limit.
[[nodiscard]] Failure failure_of(const ApiAnswer& problem);

/// The name of a problem, as "stale-receipt".
[[nodiscard]] std::string problem_name(const ApiAnswer& problem);

/// "/api/v1/tubes/NAME".
[[nodiscard]] std::string tube_path(const std::string& tube);

/// The body of a job or schedule, which the API may have as base64.
[[nodiscard]] std::string body_of(const JsonView& job);

/// Every member as a line of name and value; those of objects in it as history.reserves. Bodies are
/// left out.
void print_members(const JsonView& object);

/// Jobs by id, or by key in a tube.
struct JobNames {
  std::vector<std::string> ids;
  std::string tube = "default";
  std::vector<std::string> keys;

  /// Adds ID, --tube and --key: `most` of them.
  void add_to(CLI::App& app, const char* what, std::size_t most);

  struct Named {
    std::string path;  ///< Of the API.
    std::string json;  ///< The id, or the key as JSON.
    std::string words;
  };
  /// Those that were said; it is wrong usage if there are none.
  [[nodiscard]] std::vector<Named> all() const;
};

/// --max-attempts, --backoff, --backoff-cap and --backoff-jitter.
struct Attempts {
  std::string most;
  std::string base;
  std::string cap;
  bool jitter = false;

  void add_to(CLI::App& app);
  [[nodiscard]] bool said() const noexcept;
  /// Adds the members to a job's JSON.
  void write(JsonLine& job) const;
};

}  // namespace carillon::app
