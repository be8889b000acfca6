// The threads of the server and its port; a client's side is
// HttpConnection.h's.
#include "serving/http/HttpServer.h"

#include "serving/http/HttpConnection.h"

namespace knapper::serving {

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

Expected<std::unique_ptr<HttpServer>>
HttpServer::start(const HttpServerOptions &options, HttpHandler handler) {
  auto listener = std::make_unique<Listener>(options);
  listener->state->handler = std::move(handler);
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
  return "http://" + (address.is_v6() ? "[" + host + "]" : host) + ":" +
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
