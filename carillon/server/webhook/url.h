// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The URL that a webhook posts to, taken apart and checked. Whether its address may be connected
/// to is another question: address_policy.h.

#include <cstdint>
#include <string>
#include <string_view>

#include "carillon/base/result.h"

namespace carillon::server {

/// An absolute http or https URL.
///
/// Limits: kMaxSize bytes, ASCII only. Refused: a user name or password, a fragment, a number that
///         is not an IPv4 address written in full (`127.1`, `0x7f000001`), an IPv6 zone, and the
///         ports that the Fetch standard blocks, where something other than HTTP listens that a
///         request might be mistaken for commands by.
struct WebhookUrl {
  static constexpr std::size_t kMaxSize = 2'048;

  bool tls = false;
  std::string host;  ///< In lower case; of IPv6 without the brackets.
  std::uint16_t port = 0;
  std::string target = "/";  ///< Path and query.

  [[nodiscard]] static Result<WebhookUrl> parse(std::string_view text);

  /// As in the header Host: the port only if it is not that of the scheme.
  [[nodiscard]] std::string host_field() const;
  /// Scheme, host and port: what connections are shared by.
  [[nodiscard]] std::string origin() const;
  [[nodiscard]] std::string to_string() const { return origin() + target; }
  bool operator==(const WebhookUrl&) const = default;
};

}  // namespace carillon::server
