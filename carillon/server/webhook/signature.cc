// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/webhook/signature.h"

#include <fmt/format.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <memory>

#include "carillon/base/check.h"

namespace carillon::server {

std::array<unsigned char, 32> hmac_sha256(std::string_view key,
                                          std::initializer_list<std::string_view> parts) {
  struct Free {
    void operator()(EVP_MAC* mac) const noexcept { EVP_MAC_free(mac); }
    void operator()(EVP_MAC_CTX* context) const noexcept { EVP_MAC_CTX_free(context); }
  };
  const std::unique_ptr<EVP_MAC, Free> mac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  CARILLON_CHECK(mac != nullptr, "OpenSSL has no HMAC");
  const std::unique_ptr<EVP_MAC_CTX, Free> context(EVP_MAC_CTX_new(mac.get()));
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end(),
  };
  // A key of nothing is a key; a null pointer would mean the one set before.
  const auto* bytes = reinterpret_cast<const unsigned char*>(key.empty() ? "" : key.data());
  bool good = context != nullptr && EVP_MAC_init(context.get(), bytes, key.size(), parameters) == 1;
  for (const std::string_view part : parts) {
    good =
        good && EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(part.data()),
                               part.size()) == 1;
  }
  std::array<unsigned char, 32> result{};
  std::size_t size = 0;
  good = good && EVP_MAC_final(context.get(), result.data(), &size, result.size()) == 1;
  CARILLON_CHECK(good && size == result.size(), "HMAC of OpenSSL failed");
  return result;
}

std::string sign_webhook(std::span<const std::string> secrets, std::int64_t unix_s,
                         broker::JobId id, std::string_view body) {
  if (secrets.empty()) return {};
  std::string header = fmt::format("t={}", unix_s);
  const std::string prefix = fmt::format("{}.{}.", unix_s, id);
  for (const std::string& secret : secrets) {
    header += ",v1=";
    for (const unsigned char byte : hmac_sha256(secret, {prefix, body})) {
      fmt::format_to(std::back_inserter(header), "{:02x}", byte);
    }
  }
  return header;
}

}  // namespace carillon::server
