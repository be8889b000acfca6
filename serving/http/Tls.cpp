#include "serving/http/Tls.h"

#include "runtime/base/Text.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace knapper::serving {

namespace ssl = boost::asio::ssl;
using ErrorCode = boost::system::error_code;

/// We speak HTTP/1.1; a client that offers other protocols only goes on without
/// an agreement.
static int chooseProtocol(SSL *, const unsigned char **chosen,
                          unsigned char *length, const unsigned char *offered,
                          unsigned int size, void *) {
  static constexpr unsigned char ours[] = "\x08http/1.1";
  auto *out = const_cast<unsigned char *>(*chosen);
  int answer = SSL_select_next_proto(&out, length, ours, sizeof(ours) - 1,
                                     offered, size);
  *chosen = out;
  return answer == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK
                                          : SSL_TLSEXT_ERR_NOACK;
}

static std::shared_ptr<TlsContext> makeContext(TlsContext::method method) {
  auto context = std::make_shared<TlsContext>(method);
  context->set_options(ssl::context::default_workarounds |
                       ssl::context::no_compression);
  SSL_CTX *native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  // Of an idle connection 34 KB otherwise.
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  return context;
}

Expected<std::shared_ptr<TlsContext>> serverTls(const std::string &certificate,
                                                const std::string &key) {
  try {
    std::shared_ptr<TlsContext> context = makeContext(TlsContext::tls_server);
    ErrorCode error;
    context->use_certificate_chain_file(certificate, error);
    if (error)
      return userError(cat("is no certificate: ", error.message()), certificate,
                       "a PEM file, the server's certificate first");
    bool encrypted = false; // or OpenSSL asks for the password on the terminal
    context->set_password_callback([&](size_t, ssl::context::password_purpose) {
      encrypted = true;
      return std::string();
    });
    context->use_private_key_file(key, ssl::context::pem, error);
    if (error && encrypted)
      return userError("the private key is encrypted", key,
                       "openssl pkey -in KEY -out PLAIN");
    bool other =
        error && ERR_GET_REASON(static_cast<unsigned long>(error.value())) ==
                     X509_R_KEY_VALUES_MISMATCH;
    if (error && !other)
      return userError(cat("is no private key: ", error.message()), key,
                       "a PEM file");
    // A key of another kind than the certificate's is kept beside it.
    if (other || SSL_CTX_check_private_key(context->native_handle()) != 1)
      return userError(cat("is not the key of the certificate ", certificate),
                       key, "the key that the certificate was made with");
    context->set_password_callback(
        [](size_t, ssl::context::password_purpose) { return std::string(); });
    SSL_CTX_set_alpn_select_cb(context->native_handle(), chooseProtocol,
                               nullptr);
    return context;
  } catch (const std::exception &failure) {
    return internalError(cat("TLS: ", failure.what()), certificate);
  }
}

Expected<std::shared_ptr<TlsContext>> clientTls() {
  try {
    std::shared_ptr<TlsContext> context = makeContext(TlsContext::tls_client);
    context->set_default_verify_paths();
    context->set_verify_mode(ssl::verify_peer);
    return context;
  } catch (const std::exception &failure) {
    return internalError(cat("TLS: ", failure.what()), "the client");
  }
}

bool isPlainHttp(const ErrorCode &error) {
  if (error.category() != boost::asio::error::get_ssl_category())
    return false;
  int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST;
}

} // namespace knapper::serving
