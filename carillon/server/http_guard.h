// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who may ask for what over HTTP: bearer tokens with roles, and the checks that keep pages in a
/// browser from reaching a server on the loopback.

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"
#include "carillon/protocol/http/problem.h"
#include "carillon/protocol/http/routes.h"
#include "carillon/server/http_message.h"

namespace carillon::server {

/// The tokens of a file, for HTTP and for beanstalk's clients: a line each,
///
///     ROLES SHA256 [NAME]        consume,produce 9f86d081884c7d65... billing workers
///
/// ROLES joined by commas, SHA256 of the token in hexadecimal, NAME for people. Empty lines and
/// lines that begin with # say nothing. The tokens themselves are nowhere.
///
/// Threads: one object, one thread.
class HttpTokens {
 public:
  using Digest = std::array<unsigned char, 32>;

  static constexpr std::size_t kMaxTokens = 1'000;

  /// Errors name the line.
  [[nodiscard]] static Result<HttpTokens> parse(std::string_view text, std::string_view name);
  [[nodiscard]] static Result<HttpTokens> load(const std::string& path);

  /// The roles of `token`; 0: it is none of these. Takes as long for any token, right or wrong.
  [[nodiscard]] protocol::http::Roles roles_of(std::string_view token) const {
    return roles_of(digest_of(token));
  }
  [[nodiscard]] protocol::http::Roles roles_of(const Digest& digest) const;
  /// What is kept of a token.
  [[nodiscard]] static Digest digest_of(std::string_view token);
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    Digest digest{};
    protocol::http::Roles roles = 0;
  };
  std::vector<Entry> entries_;
};

/// SHA-256 in hexadecimal, as in a file of tokens.
[[nodiscard]] std::string sha256_hex(std::string_view bytes);

/// Threads: one object, one thread.
class HttpGuard {
 public:
  /// With tokens, every route that is not public needs one. Without, everyone may do everything.
  void set_tokens(std::optional<HttpTokens> tokens) {
    tokens_ = std::move(tokens);
    ++changes_;
  }
  /// How often the tokens have been set: what was checked before may be refused now.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }
  /// What whoever asks may do; without tokens, everything.
  [[nodiscard]] protocol::http::Roles roles_of(const HttpRequest& request) const;
  [[nodiscard]] bool has_tokens() const noexcept { return tokens_.has_value(); }
  /// Names, beside localhost and numeric addresses, that a Host header may have when there are no
  /// tokens. A page that has its own name lead to the loopback (DNS rebinding) is refused so.
  void allow_hosts(std::set<std::string> names) { hosts_ = std::move(names); }

  /// What stands against the request, if anything does. `roles`: one of these is needed; kPublic:
  /// none.
  [[nodiscard]] std::optional<protocol::http::Problem> check(const HttpRequest& request,
                                                             protocol::http::Roles roles) const;

 private:
  [[nodiscard]] bool allows_host(std::string_view host) const;

  std::optional<HttpTokens> tokens_;
  std::uint64_t changes_ = 0;
  std::set<std::string> hosts_;
};

}  // namespace carillon::server
