// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/signature.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace carillon::server {
namespace {

std::string hex(const std::array<unsigned char, 32>& bytes) {
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

TEST(HmacSha256, IsThatOfRfc4231) {
  EXPECT_EQ(hex(hmac_sha256(std::string(20, '\x0b'), {"Hi There"})),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hex(hmac_sha256("Jefe", {"what do ya want ", "for nothing?"})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hex(hmac_sha256(std::string(131, '\xaa'),
                            {"Test Using Larger Than Block-Size Key - Hash Key First"})),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacSha256, OfNothingUnderNoKey) {
  EXPECT_EQ(hex(hmac_sha256("", {})),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

// Computed by Python: hmac.new(b'secret', b'1700000000.42.{"order":7}', 'sha256').hexdigest()
constexpr char kExpected[] = "01a58f03cf12c0230ef5fe4a2ea8d1309f42f32fd29cbc1c418e205337eb1023";

TEST(SignWebhook, SignsTimeIdAndBody) {
  const std::vector<std::string> secrets{"secret"};
  EXPECT_EQ(sign_webhook(secrets, 1'700'000'000, 42, R"({"order":7})"),
            fmt::format("t=1700000000,v1={}", kExpected));
}

TEST(SignWebhook, HasASignatureForEachSecretDuringARotation) {
  const std::vector<std::string> both{"newer", "secret"};
  const std::string header = sign_webhook(both, 1'700'000'000, 42, R"({"order":7})");
  EXPECT_EQ(header.find("t=1700000000,v1="), 0U);
  EXPECT_NE(header.find(fmt::format(",v1={}", kExpected)), std::string::npos);
  EXPECT_EQ(header.size(), 12 + 2 * (4 + 64));
}

TEST(SignWebhook, WithoutASecretThereIsNone) {
  EXPECT_EQ(sign_webhook({}, 1'700'000'000, 42, "x"), "");
}

}  // namespace
}  // namespace carillon::server
