// SPDX-License-Identifier: Apache-2.0
// Whom the poster believes: certificates of an authority it was told of, for the host it asked for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <memory>
#include <string>

#include "carillon/server/webhook/poster_testing.h"

namespace carillon::server {
namespace {

using End = PostOutcome::End;

/// A certificate that vouches for itself, for the host names.test, and a server's context with it.
class Identity {
 public:
  Identity() : context_(boost::asio::ssl::context::tls_server) {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  EVP_PKEY_free);
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
    X509* x509 = certificate.get();
    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), -3'600);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3'600);
    X509_set_pubkey(x509, key.get());
    X509_NAME* name = X509_get_subject_name(x509);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(x509, name);
    add_extension(x509, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(x509, NID_subject_alt_name, "DNS:names.test");
    X509_sign(x509, key.get(), EVP_sha256());
    SSL_CTX_use_certificate(context_.native_handle(), x509);
    SSL_CTX_use_PrivateKey(context_.native_handle(), key.get());
    const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
    PEM_write_bio_X509(out.get(), x509);
    char* text = nullptr;
    const long size = BIO_get_mem_data(out.get(), &text);
    pem_.assign(text, static_cast<std::size_t>(size));
  }
  Identity(const Identity&) = delete;
  Identity& operator=(const Identity&) = delete;

  [[nodiscard]] boost::asio::ssl::context* context() { return &context_; }
  [[nodiscard]] const std::string& pem() const { return pem_; }

 private:
  static void add_extension(X509* x509, int nid, const char* value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value);
    X509_add_ext(x509, extension, -1);
    X509_EXTENSION_free(extension);
  }

  boost::asio::ssl::context context_;
  std::string pem_;
};

HttpPosterOptions trusting(const std::string& authorities) {
  HttpPosterOptions options;
  options.policy = PosterUnderTest::policy_of({"127.0.0.1"});
  options.authorities = authorities;
  options.lookup = [](const std::string&) -> HostResolver::Addresses {
    return std::vector{*IpAddress::parse("127.0.0.1")};
  };
  return options;
}

std::string url_of(const ScriptedServer& server, const std::string& host) {
  return "https://" + host + ":" + std::to_string(server.port()) + "/";
}

void answer_all(ServerSide& side) {
  while (true) {
    side.read_request();
    side.answer(200);
  }
}

TEST(HttpPosterTls, PostsToAServerThatIsWhoItSays) {
  Identity identity;
  ScriptedServer server(answer_all, identity.context());
  PosterUnderTest poster(trusting(identity.pem()));
  for (PostId id = 1; id <= 3; ++id) {
    const PostOutcome outcome = poster.post(id, url_of(server, "names.test"), "secret");
    EXPECT_EQ(outcome.status, 200) << outcome.detail;
  }
  EXPECT_EQ(server.connections(), 1);
  poster.stop();
}

TEST(HttpPosterTls, DoesNotPostToAnotherHostsCertificate) {
  Identity identity;
  ScriptedServer server(answer_all, identity.context());
  PosterUnderTest poster(trusting(identity.pem()));
  EXPECT_EQ(poster.post(1, url_of(server, "other.test")).end, End::kTls);
  EXPECT_EQ(poster.post(2, url_of(server, "127.0.0.1")).end, End::kTls);
  poster.stop();
}

TEST(HttpPosterTls, DoesNotTrustAnUnknownAuthority) {
  Identity identity;
  ScriptedServer server(answer_all, identity.context());
  PosterUnderTest system(trusting(""));
  EXPECT_EQ(system.post(1, url_of(server, "names.test")).end, End::kTls);
  system.stop();
  const Identity other;
  PosterUnderTest poster(trusting(other.pem()));
  EXPECT_EQ(poster.post(1, url_of(server, "names.test")).end, End::kTls);
  poster.stop();
}

TEST(HttpPosterTls, APlainServerIsNoTlsServer) {
  ScriptedServer server([](ServerSide& side) {
    side.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    side.wait_for_end();
  });
  PosterUnderTest poster(trusting(""));
  EXPECT_EQ(poster.post(1, url_of(server, "names.test")).end, End::kTls);
  poster.stop();
}

TEST(HttpPosterTls, AnAuthorityThatIsNoneIsSaid) {
  ManualCalendar calendar;
  const auto poster =
      HttpPoster::start(trusting("no certificate"), calendar, [](PostId, PostOutcome) {});
  ASSERT_FALSE(poster);
  EXPECT_EQ(poster.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace carillon::server
