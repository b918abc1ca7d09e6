// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Base64 of RFC 4648, section 4: how bytes that are not UTF-8 travel in JSON.

#include <optional>
#include <string>
#include <string_view>

namespace carillon::protocol::http {

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Nothing if `text` is not the encoding of any bytes: padding is needed, the bits behind the last
/// byte are zero, there is no white space.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace carillon::protocol::http
