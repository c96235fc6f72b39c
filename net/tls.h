// SPDX-License-Identifier: Apache-2.0
// What a client trusts and shows over TLS.
#pragma once

#include <memory>
#include <string>

namespace plimsoll::net {

struct TlsSettings {
  std::string ca_file;                  // certificates that are trusted instead of the system's
  std::string client_cert, client_key;  // files in PEM
  bool insecure = false;                // accept any certificate
};

/// TLS 1.2 or later. Verifies the chain and the host name unless insecure.
class TlsContext {
 public:
  /// Throws InputError for a file that cannot be used.
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
