// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/tls_context.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <array>
#include <string_view>
#include <utility>

#include "carillon/server/option_file.h"

namespace carillon::server {
namespace {

struct FreeOpenSsl {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
template <class T>
using Owned = std::unique_ptr<T, FreeOpenSsl>;

/// Nobody is there to type in the passphrase of a key: OpenSSL would ask on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

Owned<BIO> bio_of(std::string_view text) {
  return Owned<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

/// Whether the PEM that was being read ended, and not with a mistake.
bool ended_well() {
  const unsigned long code = ERR_peek_last_error();
  if (ERR_GET_LIB(code) != ERR_LIB_PEM || ERR_GET_REASON(code) != PEM_R_NO_START_LINE) return false;
  ERR_clear_error();
  return true;
}

/// The certificate, and those that lead from it to its authority.
bool use_chain(SSL_CTX* ctx, std::string_view text) {
  const Owned<BIO> bio = bio_of(text);
  const Owned<X509> own(PEM_read_bio_X509_AUX(bio.get(), nullptr, no_passphrase, nullptr));
  if (own == nullptr || SSL_CTX_use_certificate(ctx, own.get()) != 1) return false;
  for (;;) {
    Owned<X509> next(PEM_read_bio_X509(bio.get(), nullptr, no_passphrase, nullptr));
    if (next == nullptr) return ended_well();
    if (SSL_CTX_add0_chain_cert(ctx, next.get()) != 1) return false;
    [[maybe_unused]] X509* const taken = next.release();
  }
}

bool use_key(SSL_CTX* ctx, std::string_view text) {
  const Owned<BIO> bio = bio_of(text);
  const Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  return key != nullptr && SSL_CTX_use_PrivateKey(ctx, key.get()) == 1;
}

/// Lets in whom one of these has certified. A server tells its clients which these are.
bool trust(SSL_CTX* ctx, std::string_view text, bool tell_clients) {
  const Owned<BIO> bio = bio_of(text);
  std::size_t count = 0;
  for (;; ++count) {
    const Owned<X509> next(PEM_read_bio_X509_AUX(bio.get(), nullptr, no_passphrase, nullptr));
    if (next == nullptr) return count > 0 && ended_well();
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), next.get()) != 1) return false;
    if (tell_clients && SSL_CTX_add_client_CA(ctx, next.get()) != 1) return false;
  }
}

/// http/1.1 if the client offers it; a client that says nothing of protocols is taken for one.
int select_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int size, void*) {
  static constexpr unsigned char kOurs[] = "\x08http/1.1";
  const int result = SSL_select_next_proto(const_cast<unsigned char**>(out), out_size, kOurs,
                                           static_cast<unsigned>(sizeof kOurs - 1), offered, size);
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

Error failed(std::string_view what, const std::string& file) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{} '{}': {}", what, file, take_openssl_error())};
}

/// TLS 1.2 or later. Null: OpenSSL cannot.
SSL_CTX* make_context(const SSL_METHOD* side) {
  SSL_CTX* const ctx = SSL_CTX_new(side);
  if (ctx == nullptr) return nullptr;
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  return ctx;
}

/// Comes as the certificate of these files; `of` are the options.
Result<void> use_identity(SSL_CTX* ctx, const std::string& certificate, const std::string& key_file,
                          std::string_view of_certificate, std::string_view of_key) {
  Result<std::string> chain = read_option_file(certificate, of_certificate);
  if (!chain) return std::move(chain).error();
  if (!use_chain(ctx, *chain)) return failed(of_certificate, certificate);
  Result<std::string> key = read_option_file(key_file, of_key);
  if (!key) return std::move(key).error();
  const bool used = use_key(ctx, *key);
  OPENSSL_cleanse(key->data(), key->size());
  if (!used || SSL_CTX_check_private_key(ctx) != 1) return failed(of_key, key_file);
  return {};
}

Result<void> use_authorities(SSL_CTX* ctx, const std::string& file, std::string_view of,
                             bool tell_clients) {
  Result<std::string> authorities = read_option_file(file, of, kMaxAuthoritiesFile);
  if (!authorities) return std::move(authorities).error();
  if (!trust(ctx, *authorities, tell_clients)) return failed(of, file);
  return {};
}

}  // namespace

std::string take_openssl_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "unknown error" : text.data();
}

void FreeTlsContext::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }

Result<std::shared_ptr<TlsContext>> TlsContext::load(const Files& files) {
  auto context = std::make_shared<TlsContext>();
  context->context_.reset(make_context(TLS_server_method()));
  SSL_CTX* const ctx = context->context_.get();
  if (ctx == nullptr) return failed("TLS", "");
  SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(ctx, select_protocol, nullptr);
  Result<void> used = use_identity(ctx, files.certificate, files.key, "tls-cert", "tls-key");
  if (!used) return std::move(used).error();
  if (!files.client_ca.empty()) {
    used = use_authorities(ctx, files.client_ca, "tls-client-ca", true);
    if (!used) return std::move(used).error();
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // With sessions resumed, a certificate would count beyond what it was checked for.
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ctx, 0);
  }
  return context;
}

Result<std::shared_ptr<ClientTlsContext>> ClientTlsContext::load(const Files& files) {
  auto context = std::make_shared<ClientTlsContext>();
  context->context_.reset(make_context(TLS_client_method()));
  SSL_CTX* const ctx = context->context_.get();
  if (ctx == nullptr) return failed("TLS", "");
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, nullptr);
  if (files.authorities.empty()) {
    if (SSL_CTX_set_default_verify_paths(ctx) != 1) return failed("TLS", "");
  } else if (Result<void> used = use_authorities(ctx, files.authorities, "--tls-ca", false);
             !used) {
    return std::move(used).error();
  }
  if (files.certificate.empty()) return context;
  Result<void> used = use_identity(ctx, files.certificate, files.key, "--tls-cert", "--tls-key");
  if (!used) return std::move(used).error();
  return context;
}

}  // namespace carillon::server
