// SPDX-License-Identifier: Apache-2.0
#include "carillon/server/transport.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <string_view>

#include "carillon/server/option_file.h"

namespace carillon::server {
namespace {

/// Pieces of output sent with one system call.
constexpr std::size_t kVectors = 64;

bool is_transient(int error) noexcept {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/// What OpenSSL has to say, and nothing of it is left behind.
std::string openssl_error() {
  std::array<char, 256> text{};
  const unsigned long code = ERR_get_error();
  ERR_error_string_n(code, text.data(), text.size());
  ERR_clear_error();
  return code == 0 ? "unknown error" : text.data();
}

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

/// The certificate of the server, and those that lead from it to its authority.
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

/// Lets in clients with a certificate of one of these, and tells clients which these are.
bool trust(SSL_CTX* ctx, std::string_view text) {
  const Owned<BIO> bio = bio_of(text);
  std::size_t count = 0;
  for (;; ++count) {
    const Owned<X509> next(PEM_read_bio_X509_AUX(bio.get(), nullptr, no_passphrase, nullptr));
    if (next == nullptr) return count > 0 && ended_well();
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), next.get()) != 1 ||
        SSL_CTX_add_client_CA(ctx, next.get()) != 1) {
      return false;
    }
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

}  // namespace

void TlsContext::Free::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }
void Transport::Free::operator()(ssl_st* tls) const noexcept { SSL_free(tls); }

Result<std::shared_ptr<TlsContext>> TlsContext::load(const Files& files) {
  auto context = std::make_shared<TlsContext>();
  context->context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* const ctx = context->context_.get();
  const auto failed = [](std::string_view what, const std::string& file) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} '{}': {}", what, file, openssl_error())};
  };
  if (ctx == nullptr) return failed("TLS", "");
  SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                               SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(ctx, select_protocol, nullptr);
  Result<std::string> chain = read_option_file(files.certificate, "tls-cert");
  if (!chain) return std::move(chain).error();
  if (!use_chain(ctx, *chain)) return failed("tls-cert", files.certificate);
  Result<std::string> key = read_option_file(files.key, "tls-key");
  if (!key) return std::move(key).error();
  const bool used = use_key(ctx, *key);
  OPENSSL_cleanse(key->data(), key->size());
  if (!used || SSL_CTX_check_private_key(ctx) != 1) return failed("tls-key", files.key);
  if (!files.client_ca.empty()) {
    Result<std::string> authorities =
        read_option_file(files.client_ca, "tls-client-ca", kMaxAuthoritiesFile);
    if (!authorities) return std::move(authorities).error();
    if (!trust(ctx, *authorities)) return failed("tls-client-ca", files.client_ca);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // With sessions resumed, a certificate would count beyond what it was checked for.
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ctx, 0);
  }
  return context;
}

Transport::Transport(boost::asio::io_context& loop, FileDescriptor socket,
                     const std::shared_ptr<TlsContext>& tls)
    : socket_(loop) {
  if (tls != nullptr) {
    tls_.reset(SSL_new(tls->native()));
    if (tls_ == nullptr || SSL_set_fd(tls_.get(), socket.get()) != 1) throw std::bad_alloc();
    SSL_set_accept_state(tls_.get());
  }
  socket_.assign(socket.get());  // Throws if the kernel cannot watch one more.
  static_cast<void>(socket.release());
}

Transport::~Transport() = default;

Transport::State Transport::failure(int result, bool& wants_other, bool is_read) {
  switch (SSL_get_error(tls_.get(), result)) {
    case SSL_ERROR_WANT_READ: wants_other = !is_read; return State::kBlocked;
    case SSL_ERROR_WANT_WRITE: wants_other = is_read; return State::kBlocked;
    case SSL_ERROR_ZERO_RETURN: return is_read ? State::kEnded : State::kFailed;
    default:
      tls_failed_ = true;
      ERR_clear_error();
      return State::kFailed;
  }
}

Transport::Read Transport::read(std::span<char> into) {
  if (tls_ != nullptr) {
    read_wants_write_ = false;
    ERR_clear_error();
    const int size =
        static_cast<int>(std::min<std::size_t>(into.size(), std::numeric_limits<int>::max()));
    const int got = SSL_read(tls_.get(), into.data(), size);
    if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
    return {failure(got, read_wants_write_, true), 0};
  }
  const ssize_t got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
  if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
  if (got == 0) return {State::kEnded, 0};
  return {is_transient(errno) ? State::kBlocked : State::kFailed, 0};
}

Transport::Read Transport::read(std::span<const iovec> into) {
  if (tls_ != nullptr) {
    return read(std::span<char>(static_cast<char*>(into[0].iov_base), into[0].iov_len));
  }
  const ssize_t got = ::readv(socket_.native_handle(), into.data(), static_cast<int>(into.size()));
  if (got > 0) return {State::kOk, static_cast<std::size_t>(got)};
  if (got == 0) return {State::kEnded, 0};
  return {is_transient(errno) ? State::kBlocked : State::kFailed, 0};
}

Transport::State Transport::write(OutputBuffer& output) {
  write_wants_read_ = false;
  while (!output.empty()) {
    std::array<iovec, kVectors> vectors;
    if (tls_ != nullptr) {
      static_cast<void>(output.describe(vectors));
      ERR_clear_error();
      const int sent = SSL_write(
          tls_.get(), vectors[0].iov_base,
          static_cast<int>(std::min<std::size_t>(vectors[0].iov_len, std::size_t{1} << 20)));
      if (sent <= 0) return failure(sent, write_wants_read_, false);
      output.consume(static_cast<std::size_t>(sent));
      continue;
    }
    msghdr message{};
    message.msg_iov = vectors.data();
    message.msg_iovlen = output.describe(vectors);
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return is_transient(errno) ? State::kBlocked : State::kFailed;
    }
    output.consume(static_cast<std::size_t>(sent));
  }
  return State::kOk;
}

bool Transport::has_pending() const noexcept {
  return tls_ != nullptr && SSL_has_pending(tls_.get()) == 1;
}

void Transport::end_output() {
  if (tls_ != nullptr && !tls_failed_ && SSL_is_init_finished(tls_.get()) == 1) {
    ERR_clear_error();
    SSL_shutdown(tls_.get());
    ERR_clear_error();
  }
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

Transport::State Transport::discard(std::span<char> buffer) {
  const ssize_t got = ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0);
  if (got == 0) return State::kEnded;
  if (got < 0 && !is_transient(errno)) return State::kFailed;
  return State::kOk;
}

bool Transport::delivered() {
  int unsent = 0;
  ::ioctl(socket_.native_handle(), SIOCOUTQ, &unsent);
  return unsent == 0;
}

bool Transport::was_reset() {
  pollfd state{socket_.native_handle(), 0, 0};
  return ::poll(&state, 1, 0) > 0;  // POLLERR or POLLHUP, which are always told.
}

}  // namespace carillon::server
