//===- Tls.h - TLS 1.2 and 1.3, of a server and of a client ---------------===//
//
// OpenSSL through Asio. Files are PEM. Only the HTTP server's and client's
// sources include it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Error.h"

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

namespace knapper::serving {

using TlsContext = boost::asio::ssl::context;

/// `certificate`: the server's, then those of who signed it. `key`: its private
/// key, not encrypted. UserError for files that do not hold these, or that do
/// not belong together.
Expected<std::shared_ptr<TlsContext>> serverTls(const std::string &certificate,
                                                const std::string &key);

/// Trusts whom this machine trusts, or whom the file or folder of the
/// environment variables SSL_CERT_FILE and SSL_CERT_DIR names.
Expected<std::shared_ptr<TlsContext>> clientTls();

/// Whether a handshake failed because the client speaks HTTP without TLS.
bool isPlainHttp(const boost::system::error_code &error);

} // namespace knapper::serving
