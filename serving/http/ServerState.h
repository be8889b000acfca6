// What all connections of a server share. Only HttpConnection.h includes it.
#pragma once

#include "serving/http/HttpServer.h"
#include "serving/http/Tls.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace knapper::serving {

namespace asio = boost::asio;

class Connection;

/// Connections that other threads have something for. A thread of the server is
/// woken for the first of them, not for each, and runs a few one after the
/// other.
class Inbox {
public:
  explicit Inbox(asio::io_context &context) : context(context) {}
  /// False once it is closed.
  bool add(std::shared_ptr<Connection> connection);
  /// Drops what is there, and what comes later. No thread of the server runs.
  void close();

private:
  /// One at a time.
  void deliver();
  /// Also where there is no memory at first.
  static void runSoon(const std::shared_ptr<Connection> &connection);

  asio::io_context &context;
  std::mutex mutex; ///< guards what follows
  std::deque<std::shared_ptr<Connection>> connections;
  bool delivers = false; ///< `deliver` runs, or will
  bool closed = false;
};

/// What all connections share.
struct ServerState {
  std::vector<std::unique_ptr<Inbox>> inboxes; ///< as many as threads
  HttpServerOptions options;
  std::shared_ptr<TlsContext> tls; ///< null: none
  HttpHandler handler;
  std::atomic<size_t> connections{0};
  std::atomic<size_t> answering{0}; ///< connections whose client waits
  std::atomic<bool> closing{false}; ///< each connection ends with its answer
};

} // namespace knapper::serving
