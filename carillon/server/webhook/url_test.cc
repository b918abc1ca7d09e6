// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::server {
namespace {

using testing::HasSubstr;

TEST(WebhookUrl, IsTakenApart) {
  const Result<WebhookUrl> url = WebhookUrl::parse("https://Hooks.Example.com:8443/in/x?a=1&b=%20");
  ASSERT_TRUE(url) << url.error().message;
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "hooks.example.com");
  EXPECT_EQ(url->port, 8443);
  EXPECT_EQ(url->target, "/in/x?a=1&b=%20");
  EXPECT_EQ(url->host_field(), "hooks.example.com:8443");
  EXPECT_EQ(url->origin(), "https://hooks.example.com:8443");
}

TEST(WebhookUrl, HasTheDefaultsOfItsScheme) {
  const Result<WebhookUrl> plain = WebhookUrl::parse("HTTP://example.com");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->port, 80);
  EXPECT_EQ(plain->target, "/");
  EXPECT_EQ(plain->host_field(), "example.com");
  const Result<WebhookUrl> tls = WebhookUrl::parse("https://example.com:443?x");
  ASSERT_TRUE(tls);
  EXPECT_EQ(tls->target, "/?x");
  EXPECT_EQ(tls->to_string(), "https://example.com/?x");
}

TEST(WebhookUrl, TakesAddresses) {
  const Result<WebhookUrl> six = WebhookUrl::parse("http://[2001:DB8::1]:8080/");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "2001:db8::1");
  EXPECT_EQ(six->host_field(), "[2001:db8::1]:8080");
  const Result<WebhookUrl> four = WebhookUrl::parse("http://192.0.2.7/");
  ASSERT_TRUE(four);
  EXPECT_EQ(four->host, "192.0.2.7");
}

TEST(WebhookUrl, RefusesWhatIsNotOne) {
  const struct {
    std::string text;
    std::string why;
  } cases[] = {
      {"", "neither http"},
      {"ftp://example.com/", "neither http"},
      {"file:///etc/passwd", "neither http"},
      {"gopher://example.com/", "neither http"},
      {"//example.com/", "neither http"},
      {"http://", "not a host name"},
      {"http:///x", "not a host name"},
      {"http://user@example.com/", "user name"},
      {"http://user:pass@example.com/", "user name"},
      {"http://127.0.0.1@example.com/", "user name"},
      {"http://example.com/#f", "fragment"},
      {"http://example.com\\@evil/", "backslash"},
      {"http://exa mple.com/", "percent-encoded"},
      {"http://example.com/a\r\nX: y", "percent-encoded"},
      {"http://ex\xc3\xa4mple.com/", "percent-encoded"},
      {"http://example.com:0/", "not one for HTTP"},
      {"http://example.com:25/", "not one for HTTP"},
      {"http://example.com:6667/", "not one for HTTP"},
      {"http://example.com:65536/", "not a port"},
      {"http://example.com:/", "not a port"},
      {"http://example.com:80x/", "not a port"},
      {"http://example..com/", "not a host name"},
      {"http://example.com./", "not a host name"},
      {"http://-example.com/", "not a host name"},
      {"http://exa%6dple.com/", "not a host name"},
      // What a resolver would take for 127.0.0.1.
      {"http://127.1/", "written in full"},
      {"http://2130706433/", "written in full"},
      {"http://0x7f000001/", "written in full"},
      {"http://0x7f.1/", "written in full"},
      {"http://0177.0.0.1/", "written in full"},
      {"http://127.0.0.1.5/", "written in full"},
      {"http://[::1/", "without a ]"},
      {"http://[::1]x/", "between the address and the port"},
      {"http://[fe80::1%eth0]/", "not an IPv6 address"},
      {"http://[127.0.0.1]/", "not an IPv6 address"},
      {"http://" + std::string(64, 'a') + "/", "not a host name"},
      {"http://example.com/" + std::string(2'048, 'x'), "bytes"},
  };
  for (const auto& [text, why] : cases) {
    const Result<WebhookUrl> url = WebhookUrl::parse(text);
    ASSERT_FALSE(url) << text;
    EXPECT_THAT(url.error().message, HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace carillon::server
