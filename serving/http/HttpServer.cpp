// The threads of the server, what wakes them, and its port; a client's side is
// HttpConnection.h's.
#include "serving/http/HttpServer.h"

#include "serving/http/HttpConnection.h"

#include <array>
#include <span>
#include <thread>

namespace knapper::serving {

bool Inbox::add(std::shared_ptr<Connection> connection) {
  std::lock_guard lock(mutex);
  if (closed)
    return false;
  connections.push_back(std::move(connection));
  if (delivers)
    return true;
  try {
    asio::post(context, [this] { deliver(); });
  } catch (...) { // who adds hears of it
    connections.pop_back();
    throw;
  }
  return delivers = true;
}

void Inbox::deliver() {
  constexpr size_t few = 32; // then who else waits for this thread
  while (true) {
    std::array<std::shared_ptr<Connection>, few> taken;
    size_t count = 0;
    {
      std::lock_guard lock(mutex);
      for (; count < few && !connections.empty(); ++count) {
        taken[count] = std::move(connections.front());
        connections.pop_front();
      }
    }
    for (const auto &connection : std::span(taken).first(count))
      runSoon(connection);
    std::lock_guard lock(mutex);
    delivers = !connections.empty() && !closed;
    if (!delivers)
      return;
    try {
      asio::post(context, [this] { deliver(); });
      return;
    } catch (const std::exception &) { // goes on here
    }
  }
}

void Inbox::runSoon(const std::shared_ptr<Connection> &connection) {
  while (true)
    try {
      return Connection::runBrief(connection);
    } catch (const std::exception &) { // others give some memory back
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void Inbox::close() {
  std::deque<std::shared_ptr<Connection>> dropped;
  {
    std::lock_guard lock(mutex);
    closed = true;
    dropped.swap(connections);
  }
  for (const auto &connection : dropped)
    connection->dropBrief();
}

struct HttpServer::Listener {
  explicit Listener(const HttpServerOptions &options)
      : state(std::make_shared<ServerState>()),
        context(std::max(options.threads, 1)),
        acceptor(asio::make_strand(context)), pause(acceptor.get_executor()) {
    state->options = options;
    for (int i = 0; i < std::max(options.threads, 1); ++i)
      state->inboxes.push_back(std::make_unique<Inbox>(context));
  }

  void accept() {
    Strand strand = asio::make_strand(context);
    acceptor.async_accept(
        strand, [this, strand](ErrorCode error, tcp::socket socket) {
          // What was accepted is answered, also where nobody listens any more.
          if (!error && state->connections < state->options.mostConnections)
            std::make_shared<Connection>(std::move(socket), strand, state,
                                         accepted++)
                ->start();
          if (error == asio::error::operation_aborted || !acceptor.is_open())
            return;
          if (error) { // often: no more files; they come back
            pause.expires_after(std::chrono::milliseconds(100));
            pause.async_wait([this](ErrorCode stopped) {
              if (!stopped)
                accept();
            });
            return;
          }
          accept();
        });
  }

  std::shared_ptr<ServerState> state;
  asio::io_context context;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  tcp::endpoint endpoint;
  size_t accepted = 0; ///< connections
  std::vector<std::thread> threads;
};

HttpServer::HttpServer(std::unique_ptr<Listener> listener)
    : listener(std::move(listener)) {}

/// Null for a server without.
static Expected<std::shared_ptr<TlsContext>>
tlsOf(const HttpServerOptions &options) {
  if (options.certificate.empty() != options.key.empty())
    return userError("a certificate and its private key go together",
                     options.certificate + options.key,
                     "--tls-cert FILE --tls-key FILE");
  if (options.certificate.empty())
    return std::shared_ptr<TlsContext>();
  return serverTls(options.certificate, options.key);
}

Status HttpServer::check(const HttpServerOptions &options) {
  ASSIGN_OR_RETURN(std::shared_ptr<TlsContext> tls, tlsOf(options));
  return success();
}

Expected<std::unique_ptr<HttpServer>>
HttpServer::start(const HttpServerOptions &options, HttpHandler handler) {
  auto listener = std::make_unique<Listener>(options);
  listener->state->handler = std::move(handler);
  ASSIGN_OR_RETURN(listener->state->tls, tlsOf(options));
  std::string place = options.host + ":" + std::to_string(options.port);
  ErrorCode error;
  tcp::resolver resolver(listener->context);
  auto found = resolver.resolve(options.host, std::to_string(options.port),
                                tcp::resolver::passive, error);
  if (error || found.empty())
    return userError("there is no such address: " + error.message(), place,
                     "--host 127.0.0.1");
  tcp::endpoint endpoint = found.begin()->endpoint();
  tcp::acceptor &acceptor = listener->acceptor;
  if (options.listening >= 0) {
    acceptor.assign(endpoint.protocol(), options.listening, error);
  } else {
    acceptor.open(endpoint.protocol(), error);
    if (!error)
      acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error)
      acceptor.bind(endpoint, error);
    if (!error)
      acceptor.listen(4096, error);
  }
  if (error)
    return userError("cannot listen: " + error.message(), place,
                     "another --port, or end the program that has it");
  listener->endpoint = acceptor.local_endpoint(error);
  listener->accept();
  Listener *raw = listener.get();
  for (int i = 0; i < options.threads; ++i)
    listener->threads.emplace_back([raw] { raw->context.run(); });
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener)));
}

HttpServer::~HttpServer() { stop(); }

void HttpServer::stop() {
  listener->context.stop();
  for (std::thread &thread : listener->threads)
    thread.join();
  listener->threads.clear();
  for (const auto &inbox : listener->state->inboxes)
    inbox->close();
}

uint16_t HttpServer::port() const { return listener->endpoint.port(); }

std::string HttpServer::address() const {
  asio::ip::address address = listener->endpoint.address();
  std::string host = address.to_string();
  return (listener->state->tls ? "https://" : "http://") +
         (address.is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(port());
}

size_t HttpServer::connections() const { return listener->state->connections; }

size_t HttpServer::answering() const { return listener->state->answering; }

int HttpServer::socket() const { return listener->acceptor.native_handle(); }

void HttpServer::closeSoon() { listener->state->closing = true; }

void HttpServer::stopListening() {
  asio::post(listener->context, [raw = listener.get()] {
    ErrorCode ignored;
    raw->acceptor.close(ignored);
  });
}

} // namespace knapper::serving
