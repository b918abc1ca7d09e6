// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Who one is in TLS, and whom one believes: of a server, and of its client.

#include <memory>
#include <string>

#include "carillon/base/result.h"

struct ssl_ctx_st;

namespace carillon::server {

struct FreeTlsContext {
  void operator()(ssl_ctx_st* context) const noexcept;
};

/// The server's side of TLS 1.2 or later: its certificate, key, and whom it lets in. Threads: as
/// OpenSSL's.
class TlsContext {
 public:
  struct Files {
    std::string certificate;  ///< PEM, the chain behind it.
    std::string key;          ///< PEM.
    std::string client_ca;    ///< PEM; clients need a certificate of it. Empty: they need none.
  };
  /// Errors name the option of the server.
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> load(const Files& files);

  [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_.get(); }

 private:
  std::unique_ptr<ssl_ctx_st, FreeTlsContext> context_;
};

/// The client's side: whom it believes to be a server, and as whom it comes. There is no way not to
/// look at the server's certificate. Threads: as OpenSSL's.
class ClientTlsContext {
 public:
  struct Files {
    std::string authorities;  ///< PEM. Empty: those of the system.
    std::string certificate;  ///< PEM, the chain behind it. Empty: it has none to show.
    std::string key;          ///< PEM; there if the certificate is.
  };
  /// Errors name the option of the command line.
  [[nodiscard]] static Result<std::shared_ptr<ClientTlsContext>> load(const Files& files);

  [[nodiscard]] ssl_ctx_st* native() const noexcept { return context_.get(); }

 private:
  std::unique_ptr<ssl_ctx_st, FreeTlsContext> context_;
};

/// What OpenSSL has to say of a failure, and nothing of it is left behind.
[[nodiscard]] std::string take_openssl_error();

}  // namespace carillon::server
