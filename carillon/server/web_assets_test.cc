// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/web_assets.h"

#include <gtest/gtest.h>

#include <boost/beast/zlib/inflate_stream.hpp>
#include <set>
#include <string>

namespace carillon::server {
namespace {

/// What a browser makes of it: RFC 1952, without the optional parts of the header.
std::string unzipped(std::string_view gzip, std::size_t size) {
  constexpr std::size_t kHeader = 10;
  constexpr std::size_t kTrailer = 8;
  std::string result(size + 1, '\0');
  boost::beast::zlib::inflate_stream stream;
  boost::beast::zlib::z_params z;
  z.next_in = gzip.data() + kHeader;
  z.avail_in = gzip.size() - kHeader - kTrailer;
  z.next_out = result.data();
  z.avail_out = result.size();
  boost::beast::error_code error;
  stream.write(z, boost::beast::zlib::Flush::finish, error);
  EXPECT_EQ(error, boost::beast::zlib::error::end_of_stream) << error.message();
  result.resize(z.total_out);
  return result;
}

TEST(WebAssets, TheCompressedFormIsTheSameFile) {
  for (const WebAsset& asset : web_assets()) {
    ASSERT_GT(asset.gzip.size(), 18U) << asset.path;
    EXPECT_TRUE(unzipped(asset.gzip, asset.bytes.size()) == asset.bytes) << asset.path;
  }
}

TEST(WebAssets, EachHasAPathOfItsOwnAndATypeAndATag) {
  std::set<std::string_view> paths;
  for (const WebAsset& asset : web_assets()) {
    EXPECT_TRUE(paths.insert(asset.path).second) << asset.path;
    EXPECT_TRUE(asset.path.starts_with('/'));
    EXPECT_FALSE(asset.content_type.empty()) << asset.path;
    EXPECT_TRUE(asset.etag.size() > 2 && asset.etag.starts_with('"') && asset.etag.ends_with('"'));
    EXPECT_FALSE(asset.bytes.empty()) << asset.path;
    // gzip, without a time in it: RFC 1952.
    EXPECT_TRUE(asset.gzip.starts_with(std::string_view("\x1f\x8b\x08\0\0\0\0\0", 8)))
        << asset.path;
  }
}

TEST(WebAssets, ThePageIsAtTheRoot) {
  if (find_web_asset("/") == nullptr) GTEST_SKIP() << "built without the dashboard";
  const WebAsset* page = find_web_asset("/");
  ASSERT_NE(page, nullptr);
  EXPECT_TRUE(page->bytes.starts_with("<!doctype html>"));
  EXPECT_NE(find_web_asset("/js/main.js"), nullptr);
  EXPECT_NE(find_web_asset("/vendor/uPlot.esm.js"), nullptr);
  EXPECT_EQ(find_web_asset("/js/"), nullptr);
  EXPECT_EQ(find_web_asset(""), nullptr);
  EXPECT_EQ(find_web_asset("/../web/package.json"), nullptr);
}

TEST(WebAssets, NothingInlineThatThePolicyForbids) {
  if (find_web_asset("/") == nullptr) GTEST_SKIP() << "built without the dashboard";
  const std::string_view page = find_web_asset("/")->bytes;
  EXPECT_EQ(page.find(" style="), std::string_view::npos);
  EXPECT_EQ(page.find("<style"), std::string_view::npos);
  EXPECT_EQ(page.find(" onclick"), std::string_view::npos);
  EXPECT_EQ(page.find("<script>"), std::string_view::npos);
  for (const WebAsset& asset : web_assets()) {
    if (!asset.path.starts_with("/js/")) continue;
    EXPECT_EQ(asset.bytes.find("innerHTML"), std::string_view::npos) << asset.path;
    EXPECT_EQ(asset.bytes.find("https://"), std::string_view::npos) << asset.path;
  }
}

TEST(WebAssets, GzipIsSentOnlyToThoseWhoTakeIt) {
  EXPECT_TRUE(accepts_gzip("gzip"));
  EXPECT_TRUE(accepts_gzip("deflate, gzip;q=0.5, br"));
  EXPECT_TRUE(accepts_gzip("*"));
  EXPECT_FALSE(accepts_gzip(""));
  EXPECT_FALSE(accepts_gzip("identity"));
  EXPECT_FALSE(accepts_gzip("br, gzip;q=0"));
  EXPECT_FALSE(accepts_gzip("gzip; q=0.000"));
  EXPECT_FALSE(accepts_gzip("x-gzip-like"));
}

TEST(WebAssets, AKnownTagIsRecognized) {
  EXPECT_TRUE(matches_etag("\"a1\"", "\"a1\""));
  EXPECT_TRUE(matches_etag("\"b2\", W/\"a1\"", "\"a1\""));
  EXPECT_TRUE(matches_etag("*", "\"a1\""));
  EXPECT_FALSE(matches_etag("", "\"a1\""));
  EXPECT_FALSE(matches_etag("\"a\"", "\"a1\""));
}

}  // namespace
}  // namespace carillon::server
