// SPDX-License-Identifier: Apache-2.0
// What a TLS client trusts, and the certificate that it presents.
#pragma once

#include <memory>
#include <string>

namespace plimsoll::net {

struct TlsSettings {
  std::string ca_file;                  // certificates to trust instead of the system's
  std::string client_cert, client_key;  // PEM files
  bool insecure = false;                // accept any certificate
};

/// A TLS client context, for TLS 1.2 or later. Verifies the chain and the host name unless `insecure`.
class TlsContext {
 public:
  /// Throws InputError if a file cannot be used.
  explicit TlsContext(const TlsSettings& settings);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  struct Impl;  // net/tls_impl.h
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::net
