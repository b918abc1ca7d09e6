// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What proves to the receiver of a webhook that it comes from here, is whole, and is not an old
/// one sent again.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "carillon/broker/job.h"

namespace carillon::server {

/// HMAC-SHA-256 of the concatenation of `parts`.
[[nodiscard]] std::array<unsigned char, 32> hmac_sha256(
    std::string_view key, std::initializer_list<std::string_view> parts);

/// The header Carillon-Signature: `t=<unix seconds>,v1=<hex>`, a v1 for each secret, of
/// "<t>.<id>.<body>". During a rotation there are two secrets, and a receiver takes whichever v1 it
/// can compute. Empty if there is no secret.
[[nodiscard]] std::string sign_webhook(std::span<const std::string> secrets, std::int64_t unix_s,
                                       broker::JobId id, std::string_view body);

}  // namespace carillon::server
