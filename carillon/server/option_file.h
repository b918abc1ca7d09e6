// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The files that options name: tokens, certificates, the configuration.

#include <cstddef>
#include <string>
#include <string_view>

#include "carillon/base/result.h"

namespace carillon::server {

/// The most that such a file may have.
inline constexpr std::size_t kMaxOptionFile = std::size_t{1} << 20;
/// Of a file of authorities, of which a system has some hundred.
inline constexpr std::size_t kMaxAuthoritiesFile = std::size_t{16} << 20;

/// What the regular file at `path` holds. Anything else, such as a FIFO, a device or a folder, is
/// refused and never waited for: whoever writes to it would hold up all clients of the server.
/// Errors: "WHAT 'PATH' cannot be read: WHY".
[[nodiscard]] Result<std::string> read_option_file(const std::string& path, std::string_view what,
                                                   std::size_t max_size = kMaxOptionFile);

}  // namespace carillon::server
