// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Which addresses webhooks may connect to, so that whoever can set a URL cannot reach what only
/// this machine or its network should (server-side request forgery).
///
/// Asked with the very address that is connected to, after the name was resolved: a name that
/// changes its mind in between gains nothing.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "carillon/base/result.h"

namespace carillon::server {

/// An address of either kind. An IPv4 address and the IPv6 address that it is mapped to
/// (::ffff:a.b.c.d) are the same.
class IpAddress {
 public:
  /// IPv4 in full (127.0.0.1, not 127.1), or IPv6 without a zone.
  [[nodiscard]] static std::optional<IpAddress> parse(const std::string& text) noexcept;
  [[nodiscard]] static IpAddress from_v4(const std::array<unsigned char, 4>& bytes) noexcept;
  [[nodiscard]] static IpAddress from_v6(const std::array<unsigned char, 16>& bytes) noexcept;

  [[nodiscard]] bool is_v4() const noexcept;
  /// As IPv6; IPv4 is mapped.
  [[nodiscard]] const std::array<unsigned char, 16>& bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string to_string() const;
  bool operator==(const IpAddress&) const = default;

 private:
  std::array<unsigned char, 16> bytes_{};
};

/// The addresses that begin with the same bits: `10.0.0.0/8`, `fd00::/8`; an address alone is a
/// block of one.
class AddressBlock {
 public:
  /// Errors: also a block that has bits set behind its prefix, such as 10.0.0.1/8.
  [[nodiscard]] static Result<AddressBlock> parse(std::string_view text);

  [[nodiscard]] bool contains(const IpAddress& address) const noexcept;
  [[nodiscard]] std::string to_string() const;
  bool operator==(const AddressBlock&) const = default;

 private:
  IpAddress first_;
  unsigned bits_ = 128;  // Of the 128 of IPv6.
};

/// Refuses what is not a public unicast address, but for the blocks that were allowed.
///
/// Refused: this host and loopback, private and unique local, link-local, shared (100.64.0.0/10),
/// multicast, documentation, benchmarking, reserved; of IPv6 all but 2000::/3, and of that what is
/// set aside for protocols and tunnels, since a tunnel's address hides another. Of NAT64
/// (64:ff9b::/96) the IPv4 address counts.
///
/// Threads: distinct and shared objects: safe, nothing changes.
class AddressPolicy {
 public:
  AddressPolicy() = default;
  explicit AddressPolicy(std::vector<AddressBlock> allowed) : allowed_(std::move(allowed)) {}

  /// Why it is refused: "is a loopback address"; nothing: it is not.
  [[nodiscard]] std::optional<std::string_view> refusal(const IpAddress& address) const noexcept;

 private:
  std::vector<AddressBlock> allowed_;
};

}  // namespace carillon::server
