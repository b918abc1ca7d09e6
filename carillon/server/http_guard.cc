// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>

#include "carillon/server/option_file.h"

namespace carillon::server {
namespace {

using protocol::http::Problem;
using protocol::http::ProblemKind;
using protocol::http::Roles;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest sha256(std::string_view bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  });
  return out;
}

/// Takes a word off the front, and the spaces behind it.
std::string_view take_word(std::string_view& text) noexcept {
  const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return word;
}

/// The token that a request shows, if it shows one.
std::optional<std::string_view> token_of(const HttpRequest& request) {
  constexpr std::string_view kScheme = "bearer ";
  std::string_view value = request.authorization;
  if (value.size() <= kScheme.size() || lower(value.substr(0, kScheme.size())) != kScheme) {
    return std::nullopt;
  }
  value.remove_prefix(kScheme.size());
  return value;
}

/// What stands behind a host: nothing, or a colon and perhaps a port.
bool is_port(std::string_view text) noexcept {
  if (text.empty() || text == ":") return true;
  if (!text.starts_with(':') || text.size() > 6) return false;
  text.remove_prefix(1);
  unsigned port = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    port = port * 10 + static_cast<unsigned>(c - '0');
  }
  return port <= 65'535;
}

/// The host of HOST, HOST:PORT or [IPV6]:PORT, in small letters. Empty: it is none of these.
std::string host_name(std::string_view host) {
  const bool in_brackets = host.starts_with('[');
  const std::size_t end = std::min(host.find(in_brackets ? ']' : ':'), host.size());
  if (in_brackets && end == host.size()) return {};
  if (!is_port(host.substr(in_brackets ? end + 1 : end))) return {};
  return lower(in_brackets ? host.substr(1, end - 1) : host.substr(0, end));
}

bool is_numeric(const std::string& host) noexcept {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : sha256(bytes)) text += fmt::format("{:02x}", byte);
  return text;
}

Result<HttpTokens> HttpTokens::parse(std::string_view text, std::string_view name) {
  HttpTokens tokens;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const auto wrong = [&](std::string_view what) {
      return Error{ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", name, number, what)};
    };
    Entry entry;
    std::string_view roles = take_word(line);
    while (!roles.empty()) {
      const std::size_t comma = std::min(roles.find(','), roles.size());
      const std::optional<Roles> role = protocol::http::parse_role(roles.substr(0, comma));
      if (!role) return wrong("the roles are produce, consume and admin, joined by commas");
      entry.roles = static_cast<Roles>(entry.roles | *role);
      roles.remove_prefix(std::min(comma + 1, roles.size()));
    }
    const std::string_view digest = take_word(line);
    if (digest.size() != entry.digest.size() * 2) {
      return wrong("behind the roles: the SHA-256 of the token, 64 hexadecimal digits");
    }
    for (std::size_t i = 0; i < entry.digest.size(); ++i) {
      const int high = hex_value(digest[2 * i]);
      const int low = hex_value(digest[2 * i + 1]);
      if (high < 0 || low < 0) return wrong("the SHA-256 is 64 hexadecimal digits");
      entry.digest[i] = static_cast<unsigned char>(high * 16 + low);
    }
    if (tokens.entries_.size() == kMaxTokens) {
      return wrong(fmt::format("there are more than {} tokens", kMaxTokens));
    }
    tokens.entries_.push_back(entry);
  }
  if (tokens.entries_.empty()) {
    // An empty file is a mistake: nobody could do anything.
    return Error{ErrorCode::kInvalidArgument, fmt::format("{}: there is no token in it", name)};
  }
  return tokens;
}

Result<HttpTokens> HttpTokens::load(const std::string& path) {
  Result<std::string> text = read_option_file(path, "the file of tokens");
  if (!text) return std::move(text).error();
  return parse(*text, path);
}

HttpTokens::Digest HttpTokens::digest_of(std::string_view token) { return sha256(token); }

Roles HttpTokens::roles_of(const Digest& digest) const {
  Roles roles = 0;
  for (const Entry& entry : entries_) {
    const bool same = CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0;
    roles = static_cast<Roles>(roles | (same ? entry.roles : 0));
  }
  return roles;
}

bool HttpGuard::allows_host(std::string_view host) const {
  const std::string name = host_name(host);
  if (name.find('@') != std::string::npos) return false;
  return name == "localhost" || name.ends_with(".localhost") || is_numeric(name) ||
         hosts_.contains(name);
}

Roles HttpGuard::roles_of(const HttpRequest& request) const {
  if (!tokens_) return protocol::http::kAnyRole;
  const std::optional<std::string_view> token = token_of(request);
  return token ? tokens_->roles_of(*token) : Roles{0};
}

std::optional<Problem> HttpGuard::check(const HttpRequest& request, Roles roles) const {
  // HTTP/1.0 has no such header; no browser speaks that.
  const bool has_host = request.is_http_1_1 || !request.host.empty();
  if (!tokens_ && has_host && !allows_host(request.host)) {
    return Problem{
        ProblemKind::kHostNotAllowed,
        "without tokens the server is reached as localhost or by a numeric address only; "
        "other names are given with http-allowed-host",
        "Host"};
  }
  if (request.method != "GET" && request.method != "HEAD") {
    // A browser says where a request comes from; other clients say nothing.
    const bool other_site = !request.fetch_site.empty() && request.fetch_site != "same-origin" &&
                            request.fetch_site != "none";
    bool other_origin = false;
    if (!request.origin.empty()) {
      const std::size_t slashes = request.origin.find("://");
      other_origin =
          slashes == std::string::npos ||
          lower(std::string_view(request.origin).substr(slashes + 3)) != lower(request.host);
    }
    if (other_site || other_origin) {
      return Problem{ProblemKind::kCrossOrigin, "only pages of this server may change something",
                     other_origin ? "Origin" : "Sec-Fetch-Site"};
    }
  }
  if (!tokens_ || roles == protocol::http::kPublic) return std::nullopt;
  if (!token_of(request)) {
    return Problem{ProblemKind::kUnauthorized, "there is no bearer token", "Authorization",
                   "Bearer TOKEN"};
  }
  const Roles has = roles_of(request);
  if (has == 0)
    return Problem{ProblemKind::kUnauthorized, "nobody knows the token", "Authorization"};
  if ((has & (roles | protocol::http::kAdminRole)) == 0) {
    return Problem{
        ProblemKind::kForbidden, fmt::format("it is for {}", protocol::http::to_string(has)),
        "Authorization",
        protocol::http::to_string(static_cast<Roles>(roles | protocol::http::kAdminRole))};
  }
  return std::nullopt;
}

}  // namespace carillon::server
