// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// How the files that the server brings along (web_assets.h) are served.
///
///     /          /index.html, the dashboard; the page of the API if there is none
///     /docs      /docs.html, the page of the API

#include <string_view>

#include "carillon/server/http_message.h"
#include "carillon/server/web_assets.h"

namespace carillon::server {

/// Null if there is none at the path of a request.
[[nodiscard]] const WebAsset* find_asset(std::string_view path) noexcept;
/// The whole of it, or that the client has it still.
[[nodiscard]] HttpResponse asset_response(const WebAsset& asset, const HttpRequest& request);

}  // namespace carillon::server
