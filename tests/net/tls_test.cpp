// SPDX-License-Identifier: Apache-2.0
// Which certificates the client accepts. The tests create them with OpenSSL, for servers that are threads of this
// process.
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <csignal>

#include "model/error.h"
#include "net/http_client.h"
#include "tests/net/canned_server.h"
#include "tests/scratch.h"

namespace plimsoll::net {
namespace {

using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

struct Identity {
  Key key{nullptr, EVP_PKEY_free};
  Certificate certificate{nullptr, X509_free};
};

void extend(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

struct Wanted {
  const char* alternative_name = nullptr;  // "DNS:localhost"; null for an authority
  long days = 1;                           // days until it expires; negative if it has expired
};

// Creates a certificate signed by `issuer`, or a self-signed one.
Identity make(const Wanted& wanted, const Identity* issuer = nullptr) {
  Identity made;
  made.key.reset(EVP_EC_gen("P-256"));
  made.certificate.reset(X509_new());
  X509* const certificate = made.certificate.get();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), issuer == nullptr ? 1 : 2);
  constexpr long kDay = 86'400;
  X509_gmtime_adj(X509_getm_notBefore(certificate), -10 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.days * kDay);
  X509_set_pubkey(certificate, made.key.get());
  const auto* const name = reinterpret_cast<const unsigned char*>(issuer == nullptr ? "authority" : "server");
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC, name, -1, -1, 0);
  X509* const by = issuer == nullptr ? certificate : issuer->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(by));
  if (wanted.alternative_name == nullptr)
    extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
  else
    extend(certificate, NID_subject_alt_name, wanted.alternative_name);
  X509_sign(certificate, issuer == nullptr ? made.key.get() : issuer->key.get(), EVP_sha256());
  return made;
}

void write_certificate(const std::string& path, const Identity& identity) {
  std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "w"), BIO_free);
  PEM_write_bio_X509(file.get(), identity.certificate.get());
}

void write_key(const std::string& path, const Identity& identity) {
  std::unique_ptr<BIO, decltype(&BIO_free)> file(BIO_new_file(path.c_str(), "w"), BIO_free);
  PEM_write_bio_PrivateKey(file.get(), identity.key.get(), nullptr, nullptr, 0, nullptr, nullptr);
}

struct Behaviour {
  int newest = TLS1_3_VERSION, oldest = TLS1_2_VERSION;
  const Identity* wants_clients_of = nullptr;  // if set, requires a client certificate of this authority
};

// Answers one request per connection over TLS, and records the name that the client asked for.
class TlsServer {
 public:
  TlsServer(const Identity& identity, const Behaviour& behaviour)
      : context_(SSL_CTX_new(TLS_server_method()), SSL_CTX_free),
        server_([this](const Socket& socket) { serve(socket); }) {
    SSL_CTX_use_certificate(context_.get(), identity.certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), identity.key.get());
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), behaviour.oldest);
    SSL_CTX_set_max_proto_version(context_.get(), behaviour.newest);
    if (behaviour.wants_clients_of == nullptr) return;
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), behaviour.wants_clients_of->certificate.get());
  }
  [[nodiscard]] std::uint16_t port() const { return server_.port(); }
  [[nodiscard]] std::string asked_name() const {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  void serve(const Socket& socket) {
    const std::unique_ptr<SSL, decltype(&SSL_free)> session(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(session.get(), socket.fd());
    if (SSL_accept(session.get()) != 1) return;
    if (const char* const name = SSL_get_servername(session.get(), TLSEXT_NAMETYPE_host_name); name != nullptr) {
      const std::lock_guard lock(mutex_);
      name_ = name;
    }
    std::array<char, 4096> request;
    if (SSL_read(session.get(), request.data(), static_cast<int>(request.size())) <= 0) return;
    constexpr std::string_view kAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    SSL_write(session.get(), kAnswer.data(), static_cast<int>(kAnswer.size()));
    SSL_shutdown(session.get());
  }

  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  mutable std::mutex mutex_;
  std::string name_;
  RawServer server_;
};

class Tls : public ::testing::Test {
 protected:
  Tls() {
    std::signal(SIGPIPE, SIG_IGN);  // for the server's side: OpenSSL may write to a closed socket
    write_certificate(ca_file_, authority_);
  }

  HttpAnswer ask(const TlsServer& server, const std::string& host = "localhost") {
    TlsSettings tls = settings_;
    if (tls.ca_file.empty() && !tls.insecure) tls.ca_file = ca_file_;
    EventLoop loop;
    HttpClient client(loop, {.server = parse_url("https://" + host + ':' + std::to_string(server.port()), "server"),
                             .proxy = {},
                             .tls = tls,
                             .headers = {}});
    return fetch(loop, client, {.target = "/", .content_type = {}, .body = {}}, {std::chrono::seconds(60)});
  }
  HttpAnswer ask(const Wanted& wanted, const Identity& issuer) {
    const Identity identity = make(wanted, &issuer);
    const TlsServer server(identity, {});
    return ask(server);
  }

  Scratch folder_;
  std::string ca_file_ = folder_.path("ca.pem");
  Identity authority_ = make({});
  TlsSettings settings_;
};

TEST_F(Tls, AcceptsACertificateOfTheAuthorityForTheHost) {
  const Identity identity = make({.alternative_name = "DNS:localhost,IP:127.0.0.1"}, &authority_);
  const TlsServer server(identity, {});
  EXPECT_EQ(ask(server).body, "hello");
  EXPECT_EQ(server.asked_name(), "localhost");
  EXPECT_EQ(ask(server, "127.0.0.1").body, "hello");
}

TEST_F(Tls, RefusesAnExpiredCertificate) {
  const HttpAnswer answer = ask({.alternative_name = "DNS:localhost", .days = -1}, authority_);
  EXPECT_EQ(answer.end.failure, HttpFailure::tls);
  EXPECT_EQ(answer.end.text, "the certificate has expired");
}

TEST_F(Tls, RefusesACertificateForAnotherHost) {
  const HttpAnswer answer = ask({.alternative_name = "DNS:example.com,IP:127.0.0.9"}, authority_);
  EXPECT_EQ(answer.end.failure, HttpFailure::tls);
  EXPECT_EQ(answer.end.text, "the certificate is for another host");
}

TEST_F(Tls, RefusesACertificateOfAnUnknownAuthority) {
  const Identity stranger = make({});
  const HttpAnswer answer = ask({.alternative_name = "DNS:localhost"}, stranger);
  EXPECT_EQ(answer.end.failure, HttpFailure::tls);
  EXPECT_NE(answer.end.text.find("issuer is not known"), std::string::npos);
}

TEST_F(Tls, AcceptsAnyCertificateIfAskedTo) {
  settings_.insecure = true;
  EXPECT_EQ(ask({.alternative_name = "DNS:example.com", .days = -1}, make({})).body, "hello");
}

TEST_F(Tls, SpeaksNothingOlderThanTls12) {
  const Identity identity = make({.alternative_name = "DNS:localhost"}, &authority_);
  const TlsServer old(identity, {.newest = TLS1_1_VERSION, .oldest = TLS1_VERSION});
  EXPECT_EQ(ask(old).end.failure, HttpFailure::tls);
  const TlsServer just(identity, {.newest = TLS1_2_VERSION});
  EXPECT_EQ(ask(just).body, "hello");
}

TEST_F(Tls, ShowsItsOwnCertificate) {
  const Identity identity = make({.alternative_name = "DNS:localhost"}, &authority_);
  const TlsServer server(identity, {.wants_clients_of = &authority_});
  EXPECT_TRUE(ask(server).end.failure.has_value());
  const Identity own = make({.alternative_name = "DNS:client"}, &authority_);
  settings_.client_cert = folder_.path("client.pem");
  settings_.client_key = folder_.path("client.key");
  write_certificate(settings_.client_cert, own);
  write_key(settings_.client_key, own);
  EXPECT_EQ(ask(server).body, "hello");
}

TEST_F(Tls, NamesTheFileThatCannotBeUsed) {
  for (const TlsSettings& wrong : {TlsSettings{.ca_file = "/none.pem", .client_cert = {}, .client_key = {}},
                                   TlsSettings{.ca_file = ca_file_, .client_cert = "/none.pem", .client_key = "/none"},
                                   TlsSettings{.ca_file = ca_file_, .client_cert = ca_file_, .client_key = {}}})
    EXPECT_THROW(TlsContext context(wrong), InputError);
}

}  // namespace
}  // namespace plimsoll::net
