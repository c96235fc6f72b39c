// SPDX-License-Identifier: Apache-2.0
#include "net/tls.h"

#include <fmt/format.h>
#include <openssl/x509_vfy.h>

#include "model/error.h"
#include "net/impl.h"

namespace plimsoll::net {
namespace {

namespace ssl = boost::asio::ssl;
using Error = boost::system::error_code;

void check_file(const Error& error, const char* option, const std::string& file) {
  if (error) throw InputError(fmt::format("{}: cannot use {}: {}", option, file, error.message()));
}

void load_client_certificate(ssl::context& context, const TlsSettings& settings) {
  if (settings.client_cert.empty() != settings.client_key.empty())
    throw InputError("--client-cert and --client-key belong together: state both");
  if (settings.client_cert.empty()) return;
  Error error;
  // Without a callback, OpenSSL asks for the pass phrase of an encrypted key on the terminal, and a script hangs.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
  context.use_certificate_chain_file(settings.client_cert, error);
  check_file(error, "--client-cert", settings.client_cert);
  context.use_private_key_file(settings.client_key, ssl::context::pem, error);
  check_file(error, "--client-key", settings.client_key);
}

}  // namespace

TlsContext::TlsContext(const TlsSettings& settings) : impl_(std::make_unique<Impl>()) {
  ssl::context& context = impl_->context;
  SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
  Error error;
  if (settings.ca_file.empty()) {
    context.set_default_verify_paths(error);
  } else {
    context.load_verify_file(settings.ca_file, error);
    check_file(error, "--ca-file", settings.ca_file);
  }
  load_client_certificate(context, settings);
  impl_->insecure = settings.insecure;
  context.set_verify_mode(settings.insecure ? ssl::verify_none : ssl::verify_peer);
}

TlsContext::~TlsContext() = default;

void expect_host(SSL* session, const Url& url, bool insecure) {
  X509_VERIFY_PARAM* const check = SSL_get0_param(session);
  if (url.is_numeric()) {
    if (!insecure) X509_VERIFY_PARAM_set1_ip_asc(check, url.host.c_str());
    return;
  }
  SSL_set_tlsext_host_name(session, url.host.c_str());
  if (!insecure) X509_VERIFY_PARAM_set1_host(check, url.host.c_str(), 0);
}

std::string handshake_failure(SSL* session, const std::string& error) {
  switch (const long result = SSL_get_verify_result(session)) {
    case X509_V_OK: return "TLS failed: " + error;
    case X509_V_ERR_CERT_HAS_EXPIRED: return "the certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "the certificate is not valid yet";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "the certificate is for another host";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:  // another issuer with the name of a trusted one
      return "the certificate's issuer is not known (--ca-file names one to trust)";
    default: return fmt::format("the certificate is not accepted: {}", X509_verify_cert_error_string(result));
  }
}

}  // namespace plimsoll::net
