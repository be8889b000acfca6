// An HTTP/1.1 server: connections, limits, time-outs. It knows no routes.
#pragma once

#include "runtime/base/Error.h"
#include "serving/http/HttpExchange.h"

#include <chrono>
#include <cstdint>

namespace knapper::serving {

struct HttpServerOptions {
  std::string host = "127.0.0.1"; ///< an address or a name of this machine
  uint16_t port = 8000;           ///< 0: any that is free
  /// A listening socket that is taken over instead of these; -1: none.
  int listening = -1;
  int threads = 2;
  /// PEM files of a certificate and of its private key: HTTPS. Both or none.
  std::string certificate, key;
  size_t largestBody = 32 << 20;
  uint32_t largestHeader = 16 << 10;
  size_t mostConnections = 16384;
  size_t mostUnsent = 8 << 20; ///< a client that is further behind is dropped
  std::chrono::seconds headerTime{60}; ///< between requests, and for a header
  std::chrono::seconds bodyTime{120};
  std::chrono::seconds writeTime{60}; ///< without the client taking a byte
};

class HttpServer {
public:
  /// UserError for a certificate or key that is none: what `start` would say,
  /// before a model is loaded.
  static Status check(const HttpServerOptions &options);
  /// Listens; UserError for an address that cannot be had, or for a certificate
  /// or key that is none. The handler is
  /// called on the server's threads, for one request of a connection at a time.
  static Expected<std::unique_ptr<HttpServer>>
  start(const HttpServerOptions &options, HttpHandler handler);
  ~HttpServer();
  /// Ends the threads; nothing is answered any more. What is posted to an
  /// exchange later never runs, so that an engine can end after this and before
  /// the server.
  void stop();

  uint16_t port() const;
  /// "http://127.0.0.1:8000", or "https://...".
  std::string address() const;
  size_t connections() const;
  /// Connections whose client waits for an answer, or for the rest of one.
  size_t answering() const;
  /// The listening socket, which stays this object's.
  int socket() const;
  /// Every connection ends with its next answer, which says so.
  void closeSoon();
  /// Accepts no more connections; those that are open go on.
  void stopListening();

private:
  struct Listener;
  explicit HttpServer(std::unique_ptr<Listener> listener);
  std::unique_ptr<Listener> listener;
};

} // namespace knapper::serving
