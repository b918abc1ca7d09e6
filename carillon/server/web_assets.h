// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The files of web/, and what the dashboard takes from npm, as they are compiled into the program.

#include <span>
#include <string_view>

namespace carillon::server {

/// One file. Everything it refers to lives as long as the program.
struct WebAsset {
  std::string_view path;  ///< In the address: "/js/main.js". The page itself is "/index.html".
  std::string_view content_type;
  std::string_view etag;  ///< Quoted; another one if the bytes are others.
  std::string_view bytes;
  std::string_view gzip;  ///< The same, compressed.
};

/// All of them. There is no /index.html if the program was built without the dashboard. Made by
/// cmake/embed_web_assets.cmake.
[[nodiscard]] std::span<const WebAsset> web_assets();

/// The asset at `path`, where "/" is "/index.html"; nullptr if there is none.
[[nodiscard]] const WebAsset* find_web_asset(std::string_view path) noexcept;

/// What the browser may do on these pages: nothing but what comes from this server, and text is
/// never markup (Content-Security-Policy).
inline constexpr std::string_view kWebPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

/// Whether an `Accept-Encoding` allows gzip.
[[nodiscard]] bool accepts_gzip(std::string_view accept_encoding) noexcept;
/// Whether an `If-None-Match` names `etag`, weak comparison; or any, by *.
[[nodiscard]] bool matches_etag(std::string_view if_none_match, std::string_view etag) noexcept;

}  // namespace carillon::server
