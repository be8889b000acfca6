#include "serving/http/HttpClient.h"

#include "runtime/base/Text.h"
#include "serving/http/HttpStream.h"
#include "serving/http/Tls.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdio>

namespace knapper::serving {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = beast::error_code;

Expected<HttpUrl> HttpUrl::parse(const std::string &url) {
  constexpr std::string_view http = "http://", https = "https://";
  std::string_view rest = url;
  HttpUrl parsed;
  parsed.secure = rest.starts_with(https);
  bool isHttp = parsed.secure || rest.starts_with(http);
  if (isHttp)
    rest.remove_prefix((parsed.secure ? https : http).size());
  size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view host = rest.substr(0, slash);
  parsed.prefix = rest.substr(slash);
  while (parsed.prefix.ends_with("/"))
    parsed.prefix.pop_back();
  size_t colon = host.rfind(':');
  bool hasPort = colon != host.npos && host.find(']', colon) == host.npos;
  parsed.port = hasPort         ? std::string(host.substr(colon + 1))
                : parsed.secure ? "443"
                                : "80";
  parsed.host = host.substr(0, hasPort ? colon : host.size());
  if (parsed.host.starts_with("[") && parsed.host.ends_with("]"))
    parsed.host = parsed.host.substr(1, parsed.host.size() - 2);
  bool isNumber =
      !parsed.port.empty() && parsed.port.size() <= 5 &&
      parsed.port.find_first_not_of("0123456789") == std::string::npos;
  if (!isHttp || parsed.host.empty() || !isNumber)
    return userError("is no address of a server", url,
                     "http://HOST:PORT or https://HOST, such as "
                     "http://127.0.0.1:8000");
  return parsed;
}

struct HttpClient::Connection {
  explicit Connection(std::shared_ptr<TlsContext> tls)
      : tls(std::move(tls)), stream(context, this->tls.get()) {}

  std::shared_ptr<TlsContext> tls;
  asio::io_context context{1};
  HttpStream stream;
  beast::flat_buffer buffer;
  std::string host, prefix, name;
  double seconds = 0;
  bool open = true, abandoned = false;

  /// Begins an operation by `start(handler)` and waits for its end.
  template <typename Start>
  Status wait(const char *what, const std::function<bool()> &wanted,
              Start &&start) {
    ErrorCode result = asio::error::timed_out;
    bool ended = false;
    try {
      stream.expires_after(
          std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
      start([&](ErrorCode error, auto &&...) {
        result = error;
        ended = true;
      });
      context.restart();
      while (!ended) {
        context.run_for(std::chrono::milliseconds(wanted ? 100 : 3600000));
        if (!ended && wanted && !wanted() && !abandoned) {
          abandoned = true;
          stream.tcp().cancel();
        }
      }
    } catch (const std::exception &failure) {
      open = false;
      return deviceError(cat(what, ": ", failure.what()), name);
    }
    if (result == http::error::need_buffer)
      result = {};
    if (!result)
      return success();
    open = false;
    if (result == beast::error::timeout) {
      char limit[32];
      snprintf(limit, sizeof(limit), "%g s", seconds);
      return deviceError(cat(what, ": nothing came in ", limit), name);
    }
    return deviceError(cat(what, ": ", result.message()), name);
  }
};

HttpClient::HttpClient(std::unique_ptr<Connection> connection)
    : connection(std::move(connection)) {}
HttpClient::~HttpClient() = default;
bool HttpClient::isOpen() const { return connection->open; }

Expected<std::unique_ptr<HttpClient>> HttpClient::connect(const HttpUrl &url,
                                                          double seconds) {
  try {
    std::shared_ptr<TlsContext> tls;
    if (url.secure) {
      ASSIGN_OR_RETURN(tls, clientTls());
    }
    auto connection = std::make_unique<Connection>(std::move(tls));
    connection->seconds = seconds;
    connection->prefix = url.prefix;
    bool isV6 = url.host.find(':') != url.host.npos;
    connection->host =
        cat(isV6 ? "[" : "", url.host, isV6 ? "]" : "", ":", url.port);
    connection->name = (url.secure ? "https://" : "http://") + connection->host;
    ErrorCode error;
    tcp::resolver resolver(connection->context);
    auto found = resolver.resolve(url.host, url.port, error);
    if (error)
      return deviceError(cat("the name is not known: ", error.message()),
                         connection->name);
    TRY(connection->wait("no connection", nullptr, [&](auto handler) {
      connection->stream.tcp().async_connect(found, handler);
    }));
    if (HttpStream::Tls *secure = connection->stream.tls()) {
      asio::ip::make_address(url.host, error);
      if (error) // a name, not an address
        SSL_set_tlsext_host_name(secure->native_handle(), url.host.c_str());
      secure->set_verify_callback(asio::ssl::host_name_verification(url.host));
      TRY(connection->wait("no TLS", nullptr, [&](auto handler) {
        secure->async_handshake(asio::ssl::stream_base::client, handler);
      }));
    }
    connection->stream.socket().set_option(tcp::no_delay(true), error);
    return std::unique_ptr<HttpClient>(new HttpClient(std::move(connection)));
  } catch (const std::exception &failure) {
    return deviceError(cat("no connection: ", failure.what()), url.host);
  }
}

Expected<int>
HttpClient::send(const std::string &path, const std::string &body,
                 const std::string &key,
                 const std::function<void(std::string_view)> &part) {
  Connection &c = *connection;
  http::request<http::string_body> request(
      body.empty() ? http::verb::get : http::verb::post, c.prefix + path, 11);
  request.set(http::field::host, c.host);
  request.set(http::field::user_agent, "knapper");
  if (!key.empty())
    request.set(http::field::authorization, "Bearer " + key);
  if (!body.empty())
    request.set(http::field::content_type, "application/json");
  request.body() = body;
  request.prepare_payload();
  TRY(c.wait("the request was not taken", wanted, [&](auto handler) {
    http::async_write(c.stream, request, handler);
  }));
  http::response_parser<http::buffer_body> parser;
  parser.body_limit(boost::none);
  TRY(c.wait("no answer", wanted, [&](auto handler) {
    http::async_read_header(c.stream, c.buffer, parser, handler);
  }));
  std::array<char, 16384> bytes;
  while (!parser.is_done() && !c.abandoned) {
    parser.get().body().data = bytes.data();
    parser.get().body().size = bytes.size();
    TRY(c.wait("the answer broke off", wanted, [&](auto handler) {
      http::async_read_some(c.stream, c.buffer, parser, handler);
    }));
    part(std::string_view(bytes.data(),
                          bytes.size() - parser.get().body().size));
  }
  c.open = parser.get().keep_alive() && !c.abandoned;
  return static_cast<int>(parser.get().result_int());
}

} // namespace knapper::serving
