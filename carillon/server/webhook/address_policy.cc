// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/address_policy.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace carillon::server {
namespace {

constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

struct Refused {
  std::array<unsigned char, 16> first;
  unsigned bits;
  std::string_view why;
};

constexpr Refused v4(unsigned char a, unsigned char b, unsigned char c, unsigned bits,
                     std::string_view why) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, 0}, kMappedBits + bits, why};
}
constexpr Refused v6(std::uint16_t a, std::uint16_t b, std::uint16_t c, unsigned bits,
                     std::string_view why) {
  const auto high = [](std::uint16_t word) { return static_cast<unsigned char>(word >> 8); };
  const auto low = [](std::uint16_t word) { return static_cast<unsigned char>(word & 0xff); };
  return {{high(a), low(a), high(b), low(b), high(c), low(c)}, bits, why};
}

/// The registries of special-purpose addresses of IANA; the first that fits says why.
constexpr Refused kRefused[] = {
    v4(0, 0, 0, 8, "is an address of this host"),
    v4(10, 0, 0, 8, "is a private address"),
    v4(100, 64, 0, 10, "is a shared address of a provider"),
    v4(127, 0, 0, 8, "is a loopback address"),
    v4(169, 254, 0, 16, "is a link-local address"),
    v4(172, 16, 0, 12, "is a private address"),
    v4(192, 0, 0, 24, "is an address of a protocol"),
    v4(192, 0, 2, 24, "is a documentation address"),
    v4(192, 88, 99, 24, "is an address of a tunnel"),
    v4(192, 168, 0, 16, "is a private address"),
    v4(198, 18, 0, 15, "is a benchmarking address"),
    v4(198, 51, 100, 24, "is a documentation address"),
    v4(203, 0, 113, 24, "is a documentation address"),
    v4(224, 0, 0, 4, "is a multicast address"),
    v4(240, 0, 0, 4, "is a reserved address"),
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, "is a loopback address"},
    {{}, 128, "is an address of this host"},
    v6(0xfe80, 0, 0, 10, "is a link-local address"),
    v6(0xfc00, 0, 0, 7, "is a unique local address"),
    v6(0xff00, 0, 0, 8, "is a multicast address"),
    v6(0x2001, 0, 0, 23, "is an address of a protocol"),
    v6(0x2001, 0x0db8, 0, 32, "is a documentation address"),
    v6(0x2002, 0, 0, 16, "is an address of a tunnel"),
    v6(0x3fff, 0, 0, 20, "is a documentation address"),
};
constexpr Refused kPublicV6 = v6(0x2000, 0, 0, 3, "");
constexpr Refused kNat64 = v6(0x0064, 0xff9b, 0, 96, "");

bool shares_bits(const std::array<unsigned char, 16>& a, const std::array<unsigned char, 16>& b,
                 unsigned bits) noexcept {
  const std::size_t whole = bits / 8;
  if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(whole), b.begin())) {
    return false;
  }
  const unsigned rest = bits % 8;
  return rest == 0 || ((a[whole] ^ b[whole]) >> (8 - rest)) == 0;
}

}  // namespace

std::optional<IpAddress> IpAddress::parse(const std::string& text) noexcept {
  std::array<unsigned char, 4> four{};
  if (inet_pton(AF_INET, text.c_str(), four.data()) == 1) return from_v4(four);
  std::array<unsigned char, 16> sixteen{};
  if (inet_pton(AF_INET6, text.c_str(), sixteen.data()) == 1) return from_v6(sixteen);
  return std::nullopt;
}

IpAddress IpAddress::from_v4(const std::array<unsigned char, 4>& bytes) noexcept {
  IpAddress address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes_.begin());
  std::copy(bytes.begin(), bytes.end(), address.bytes_.begin() + kMapped.size());
  return address;
}

IpAddress IpAddress::from_v6(const std::array<unsigned char, 16>& bytes) noexcept {
  IpAddress address;
  address.bytes_ = bytes;
  return address;
}

bool IpAddress::is_v4() const noexcept {
  return std::equal(kMapped.begin(), kMapped.end(), bytes_.begin());
}

std::string IpAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool four = is_v4();
  inet_ntop(four ? AF_INET : AF_INET6, bytes_.data() + (four ? kMapped.size() : 0), text.data(),
            text.size());
  return text.data();
}

Result<AddressBlock> AddressBlock::parse(std::string_view text) {
  const auto invalid = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("'{}' {}", text, why)};
  };
  const std::size_t slash = std::min(text.find('/'), text.size());
  const std::optional<IpAddress> address = IpAddress::parse(std::string(text.substr(0, slash)));
  if (!address) return invalid("is not an IP address or a block of them such as 10.0.0.0/8");
  AddressBlock block;
  block.first_ = *address;
  // Whether it was written as IPv4 decides what its prefix counts.
  const bool four = text.substr(0, slash).find(':') == std::string_view::npos;
  if (slash < text.size()) {
    const std::string_view prefix = text.substr(slash + 1);
    unsigned bits = 0;
    const auto [end, error] = std::from_chars(prefix.data(), prefix.data() + prefix.size(), bits);
    if (error != std::errc{} || end != prefix.data() + prefix.size() || bits > (four ? 32 : 128)) {
      return invalid(four ? "has a prefix that is not 0 to 32"
                          : "has a prefix that is not 0 to 128");
    }
    block.bits_ = four ? kMappedBits + bits : bits;
  }
  for (unsigned bit = block.bits_; bit < 128; ++bit) {
    if ((block.first_.bytes()[bit / 8] >> (7 - bit % 8) & 1) != 0) {
      return invalid("has bits set behind its prefix");
    }
  }
  return block;
}

bool AddressBlock::contains(const IpAddress& address) const noexcept {
  // ::/0 is all of IPv6; that IPv4 can be mapped into it does not make it all of IPv4.
  if (address.is_v4() && bits_ < kMappedBits) return false;
  return shares_bits(first_.bytes(), address.bytes(), bits_);
}

std::string AddressBlock::to_string() const {
  const bool four = first_.is_v4() && bits_ >= kMappedBits;
  return fmt::format("{}/{}", first_.to_string(), four ? bits_ - kMappedBits : bits_);
}

std::optional<std::string_view> AddressPolicy::refusal(const IpAddress& address) const noexcept {
  for (const AddressBlock& block : allowed_) {
    if (block.contains(address)) return std::nullopt;
  }
  if (shares_bits(kNat64.first, address.bytes(), kNat64.bits)) {
    const auto& bytes = address.bytes();
    return refusal(IpAddress::from_v4({bytes[12], bytes[13], bytes[14], bytes[15]}));
  }
  for (const Refused& refused : kRefused) {
    if (shares_bits(refused.first, address.bytes(), refused.bits)) return refused.why;
  }
  if (!address.is_v4() && !shares_bits(kPublicV6.first, address.bytes(), kPublicV6.bits)) {
    return "is not a public address";
  }
  return std::nullopt;
}

}  // namespace carillon::server
