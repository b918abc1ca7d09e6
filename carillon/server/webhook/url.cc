// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/url.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace carillon::server {
namespace {

constexpr std::size_t kMaxHost = 253;
constexpr std::size_t kMaxLabel = 63;
constexpr std::uint16_t kHttpPort = 80;
constexpr std::uint16_t kHttpsPort = 443;

/// "Port blocking" of https://fetch.spec.whatwg.org, ascending.
constexpr std::array<std::uint16_t, 83> kBlockedPorts{
    0,    1,    7,    9,    11,   13,   15,   17,   19,   20,   21,   22,   23,   25,
    37,   42,   43,   53,   69,   77,   79,   87,   95,   101,  102,  103,  104,  109,
    110,  111,  113,  115,  117,  119,  123,  135,  137,  139,  143,  161,  179,  389,
    427,  465,  512,  513,  514,  515,  526,  530,  531,  532,  540,  548,  554,  556,
    563,  587,  601,  636,  989,  990,  993,  995,  1719, 1720, 1723, 2049, 3659, 4045,
    4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080};
static_assert(std::is_sorted(kBlockedPorts.begin(), kBlockedPorts.end()));

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

constexpr char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept { return c >= 'a' && c <= 'z'; }

bool take_scheme(std::string_view& rest, std::string_view scheme) noexcept {
  if (rest.size() < scheme.size()) return false;
  for (std::size_t i = 0; i < scheme.size(); ++i) {
    if (lower(rest[i]) != scheme[i]) return false;
  }
  rest.remove_prefix(scheme.size());
  return true;
}

/// Labels of letters, digits, - and _ between dots. Pre: lower case.
bool is_name(std::string_view host) noexcept {
  if (host.empty() || host.size() > kMaxHost) return false;
  while (true) {
    const std::size_t dot = std::min(host.find('.'), host.size());
    const std::string_view label = host.substr(0, dot);
    if (label.empty() || label.size() > kMaxLabel) return false;
    if (label.front() == '-' || label.back() == '-') return false;
    if (!std::all_of(label.begin(), label.end(),
                     [](char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; })) {
      return false;
    }
    if (dot == host.size()) return true;
    host.remove_prefix(dot + 1);
  }
}

/// Whether a resolver may take it for a number: its last label begins with a digit.
bool ends_in_number(std::string_view host) noexcept {
  const std::size_t dot = host.rfind('.');
  const std::string_view last = dot == std::string_view::npos ? host : host.substr(dot + 1);
  return !last.empty() && is_digit(last.front());
}

Result<void> check_host(const std::string& host, bool bracketed) {
  std::array<unsigned char, 16> bytes{};
  if (bracketed) {
    if (inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1) return {};
    return invalid(fmt::format("url: '[{}]' is not an IPv6 address", host));
  }
  if (!is_name(host)) return invalid(fmt::format("url: '{}' is not a host name", host));
  if (ends_in_number(host) && inet_pton(AF_INET, host.c_str(), bytes.data()) != 1) {
    return invalid(fmt::format("url: '{}' is not an IPv4 address written in full", host));
  }
  return {};
}

Result<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return invalid(fmt::format("url: '{}' is not a port (1 to 65535)", text));
  }
  return port;
}

}  // namespace

Result<WebhookUrl> WebhookUrl::parse(std::string_view text) {
  if (text.size() > kMaxSize) {
    return invalid(fmt::format("url: has {} bytes, at most {} are taken", text.size(), kMaxSize));
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
    return invalid("url: has a byte that has to be percent-encoded");
  }
  WebhookUrl url;
  std::string_view rest = text;
  if (take_scheme(rest, "https://")) {
    url.tls = true;
  } else if (!take_scheme(rest, "http://")) {
    return invalid("url: begins with neither http:// nor https://");
  }
  // A backslash is a slash to browsers and part of the authority to others: to nobody here.
  if (rest.find_first_of("#\\") != std::string_view::npos) {
    return invalid("url: has a fragment (#) or a backslash");
  }
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  std::string_view authority = rest.substr(0, end);
  if (authority.find('@') != std::string_view::npos) {
    return invalid("url: has a user name; what proves who calls is the signature");
  }
  const bool bracketed = authority.starts_with('[');
  std::size_t host_end = authority.size();
  if (bracketed) {
    const std::size_t bracket = authority.find(']');
    if (bracket == std::string_view::npos) return invalid("url: has a [ without a ]");
    host_end = bracket + 1;
    if (host_end < authority.size() && authority[host_end] != ':') {
      return invalid("url: has something between the address and the port");
    }
    url.host = authority.substr(1, bracket - 1);
  } else {
    host_end = std::min(authority.find(':'), authority.size());
    url.host = authority.substr(0, host_end);
  }
  std::transform(url.host.begin(), url.host.end(), url.host.begin(), lower);
  if (Result<void> checked = check_host(url.host, bracketed); !checked) {
    return std::move(checked).error();
  }
  url.port = url.tls ? kHttpsPort : kHttpPort;
  if (host_end < authority.size()) {
    Result<std::uint16_t> port = parse_port(authority.substr(host_end + 1));
    if (!port) return std::move(port).error();
    url.port = *port;
  }
  if (std::binary_search(kBlockedPorts.begin(), kBlockedPorts.end(), url.port)) {
    return invalid(fmt::format("url: port {} is not one for HTTP", url.port));
  }
  if (end < rest.size()) url.target = rest.substr(end);
  if (url.target.front() != '/') url.target.insert(0, 1, '/');
  return url;
}

std::string WebhookUrl::host_field() const {
  std::string field = host.find(':') == std::string::npos ? host : fmt::format("[{}]", host);
  if (port != (tls ? kHttpsPort : kHttpPort)) field += fmt::format(":{}", port);
  return field;
}

std::string WebhookUrl::origin() const { return (tls ? "https://" : "http://") + host_field(); }

}  // namespace carillon::server
