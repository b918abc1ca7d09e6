// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/http_assets.h"

namespace carillon::server {

const WebAsset* find_asset(std::string_view path) noexcept {
  if (path == "/docs") return find_web_asset("/docs.html");
  const WebAsset* asset = find_web_asset(path);
  return asset == nullptr && path == "/" ? find_web_asset("/docs.html") : asset;
}

HttpResponse asset_response(const WebAsset& asset, const HttpRequest& request) {
  HttpResponse response;
  response.headers = {{"ETag", std::string(asset.etag)},
                      {"Cache-Control", "no-cache"},
                      {"Vary", "Accept-Encoding"},
                      {"Content-Security-Policy", std::string(kWebPolicy)},
                      {"Referrer-Policy", "no-referrer"}};
  if (matches_etag(request.if_none_match, asset.etag)) {
    response.status = 304;
    return response;
  }
  response.content_type = asset.content_type;
  const bool zipped = !asset.gzip.empty() && accepts_gzip(request.accept_encoding);
  if (zipped) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = zipped ? asset.gzip : asset.bytes;
  return response;
}

}  // namespace carillon::server
