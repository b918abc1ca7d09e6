// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/web_assets.h"

#include <algorithm>

namespace carillon::server {
namespace {

std::string_view trimmed(std::string_view text) noexcept {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// Takes the text up to the first `separator` off `list`.
std::string_view take_item(std::string_view& list, char separator) noexcept {
  const std::size_t end = std::min(list.find(separator), list.size());
  const std::string_view item = trimmed(list.substr(0, end));
  list.remove_prefix(std::min(end + 1, list.size()));
  return item;
}

}  // namespace

const WebAsset* find_web_asset(std::string_view path) noexcept {
  if (path == "/") path = "/index.html";
  const std::span<const WebAsset> assets = web_assets();
  const auto found = std::ranges::find(assets, path, &WebAsset::path);
  return found == assets.end() ? nullptr : &*found;
}

bool accepts_gzip(std::string_view accept_encoding) noexcept {
  while (!accept_encoding.empty()) {
    std::string_view parameters = take_item(accept_encoding, ',');
    const std::string_view coding = take_item(parameters, ';');
    if (coding != "gzip" && coding != "*") continue;
    // "q=0", "q=0.000": not at all.
    const std::string_view weight = trimmed(parameters);
    return weight.empty() || weight.find_first_not_of("q=0. ") != std::string_view::npos;
  }
  return false;
}

bool matches_etag(std::string_view if_none_match, std::string_view etag) noexcept {
  // A tag of ours has no comma in it.
  while (!if_none_match.empty()) {
    std::string_view item = take_item(if_none_match, ',');
    if (item == "*") return true;
    if (item.starts_with("W/")) item.remove_prefix(2);
    if (item == etag) return true;
  }
  return false;
}

}  // namespace carillon::server
