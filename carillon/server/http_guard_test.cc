// SPDX-License-Identifier: Apache-2.0
// Files of tokens, and what is let through. Every route and role is tried against the real server
// (tests/conformance/http).

#include "carillon/server/http_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace carillon::server {
namespace {

using protocol::http::kAdminRole;
using protocol::http::kConsumeRole;
using protocol::http::kProduceRole;
using protocol::http::kPublic;
using protocol::http::ProblemKind;
using protocol::http::Roles;
using testing::HasSubstr;

HttpGuard guard_with(const std::string& file) {
  HttpGuard guard;
  Result<HttpTokens> tokens = HttpTokens::parse(file, "tokens");
  EXPECT_TRUE(tokens) << tokens.error().message;
  guard.set_tokens(std::move(*tokens));
  return guard;
}

ProblemKind kind_of(const HttpGuard& guard, const HttpRequest& request, Roles roles) {
  const auto problem = guard.check(request, roles);
  return problem ? problem->kind : ProblemKind::kInternal;  // Which it never is.
}
constexpr ProblemKind kLetIn = ProblemKind::kInternal;

TEST(HttpTokens, RolesOfALineAreThoseOfItsToken) {
  const Result<HttpTokens> tokens =
      HttpTokens::parse("# a comment\n\n  produce,consume\t" + sha256_hex("one") +
                            "  a name with words\r\nadmin " + sha256_hex("two"),
                        "tokens");
  ASSERT_TRUE(tokens) << tokens.error().message;
  EXPECT_EQ(tokens->size(), 2U);
  EXPECT_EQ(tokens->roles_of("one"), kProduceRole | kConsumeRole);
  EXPECT_EQ(tokens->roles_of("two"), kAdminRole);
  EXPECT_EQ(tokens->roles_of(""), 0);
  EXPECT_EQ(tokens->roles_of(sha256_hex("one")), 0) << "the digest is not the token";
}

TEST(HttpTokens, TheDigestIsSha256) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(HttpTokens, AMistakeIsNamedWithItsLine) {
  const auto says = [](const std::string& text) {
    const Result<HttpTokens> tokens = HttpTokens::parse(text, "tokens");
    return tokens ? std::string() : tokens.error().message;
  };
  EXPECT_THAT(says(""), HasSubstr("no token"));
  EXPECT_THAT(says("\nroot " + sha256_hex("x")), HasSubstr("tokens:2: the roles"));
  EXPECT_THAT(says("admin"), HasSubstr("tokens:1: behind the roles"));
  EXPECT_THAT(says("admin " + sha256_hex("x") + "0"), HasSubstr("64 hexadecimal"));
  EXPECT_THAT(says("admin " + std::string(64, 'g')), HasSubstr("64 hexadecimal"));
  std::string many;
  for (std::size_t i = 0; i <= HttpTokens::kMaxTokens; ++i) {
    many += "admin " + sha256_hex(std::to_string(i)) + "\n";
  }
  EXPECT_THAT(says(many), HasSubstr("more than 1000"));
}

TEST(HttpGuard, ATokenOpensWhatItsRolesDo) {
  const HttpGuard guard =
      guard_with("produce " + sha256_hex("p") + "\nadmin " + sha256_hex("a") + "\n");
  HttpRequest request;
  request.method = "POST";
  request.host = "jobs.example";
  EXPECT_EQ(kind_of(guard, request, kPublic), kLetIn);
  EXPECT_EQ(kind_of(guard, request, kProduceRole), ProblemKind::kUnauthorized);
  request.authorization = "Bearer x";
  EXPECT_EQ(kind_of(guard, request, kProduceRole), ProblemKind::kUnauthorized);
  request.authorization = "bearer p";
  EXPECT_EQ(kind_of(guard, request, kProduceRole), kLetIn);
  EXPECT_EQ(kind_of(guard, request, kConsumeRole), ProblemKind::kForbidden);
  request.authorization = "Bearer a";
  EXPECT_EQ(kind_of(guard, request, kConsumeRole), kLetIn);
}

TEST(HttpGuard, WithoutTokensOnlyNamesThatCannotBeRebound) {
  HttpGuard guard;
  guard.allow_hosts({"jobs.example"});
  HttpRequest request;
  request.method = "GET";
  for (const char* host :
       {"localhost", "LocalHost:80", "127.0.0.1:1", "[::1]", "[fe80::1]:80", "192.168.1.2",
        "x.localhost", "Jobs.Example:5", "localhost:", "127.0.0.1:65535"}) {
    request.host = host;
    EXPECT_EQ(kind_of(guard, request, kAdminRole), kLetIn) << host;
  }
  for (const char* host : {"example",
                           "localhost.example",
                           "127.0.0.1.example",
                           "[::1]x",
                           "[",
                           "[]",
                           "jobs.example.org",
                           "127.1",
                           "",
                           ":80",
                           "localhost:65536",
                           "localhost:99999",
                           "localhost:80@evil.com",
                           "localhost:8a",
                           "localhost:-1",
                           "localhost:80:80",
                           "a@localhost",
                           "a@b.localhost",
                           "[::1",
                           "[::1]:x",
                           "[::1]80"}) {
    request.host = host;
    EXPECT_EQ(kind_of(guard, request, kAdminRole), ProblemKind::kHostNotAllowed) << host;
  }
}

TEST(HttpGuard, OnlyHttp10NeedsNoHost) {
  const HttpGuard guard;
  HttpRequest request;
  request.method = "GET";
  EXPECT_EQ(kind_of(guard, request, kAdminRole), ProblemKind::kHostNotAllowed);
  request.is_http_1_1 = false;
  EXPECT_EQ(kind_of(guard, request, kAdminRole), kLetIn);
  request.host = "evil.example";
  EXPECT_EQ(kind_of(guard, request, kAdminRole), ProblemKind::kHostNotAllowed);
}

TEST(HttpGuard, PagesOfOtherOriginsChangeNothingAndMayLook) {
  const HttpGuard guard;
  HttpRequest request;
  request.host = "localhost:11380";
  request.origin = "http://evil.example";
  request.fetch_site = "cross-site";
  request.method = "GET";
  EXPECT_EQ(kind_of(guard, request, kAdminRole), kLetIn) << "it cannot read the response";
  for (const char* method : {"POST", "PUT", "PATCH", "DELETE"}) {
    request.method = method;
    EXPECT_EQ(kind_of(guard, request, kAdminRole), ProblemKind::kCrossOrigin) << method;
  }
  request.fetch_site = "same-origin";
  EXPECT_EQ(kind_of(guard, request, kAdminRole), ProblemKind::kCrossOrigin);
  request.origin = "http://LOCALHOST:11380";
  EXPECT_EQ(kind_of(guard, request, kAdminRole), kLetIn);
}

}  // namespace
}  // namespace carillon::server
