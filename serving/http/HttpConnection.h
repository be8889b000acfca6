//===- HttpConnection.h - One client's connection -------------------------===//
//
// Beast parses requests; answers are written as they are made. Only
// HttpServer.cpp includes it: all of Asio and Beast takes long to compile.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "serving/http/HttpStream.h"
#include "serving/http/RefusedHeader.h"
#include "serving/http/ServerState.h"

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/socket.h>

namespace knapper::serving {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using ErrorCode = beast::error_code;

inline const char *reasonOf(int status) {
  return http::obsolete_reason(static_cast<http::status>(status)).data();
}

using Strand = asio::strand<asio::io_context::executor_type>;

class Connection final : public HttpExchange {
public:
  /// `strand`: the socket's.
  Connection(tcp::socket socket, const Strand &strand,
             std::shared_ptr<ServerState> state, size_t number)
      : strand(strand), state(std::move(state)),
        stream(std::move(socket), this->state->tls.get()),
        inbox(*this->state->inboxes[number % this->state->inboxes.size()]),
        // The largest line of a body's chunks, beside what is read at once.
        buffer(this->state->options.largestHeader + (64 << 10)) {
    ++this->state->connections;
  }
  ~Connection() override {
    setHandling(false);
    --state->connections;
  }

  void start() {
    ErrorCode ignored;
    stream.socket().set_option(tcp::no_delay(true), ignored);
    stream.socket().non_blocking(true, ignored);
    asio::post(strand, [self = self()] {
      if (self->stream.tls())
        self->shakeHands();
      else
        self->readHeader();
    });
  }

  const HttpRequest &request() const override { return current; }

  void respond(int status, const std::string &contentType, std::string body,
               const HttpHeaders &headers) override {
    std::string text = head(status, contentType, headers);
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    answered = true;
    if (!open)
      return;
    if (current.method == "HEAD")
      body.clear();
    size_t before = waiting.size();
    waiting.reserve(before + text.size() + body.size());
    waiting.append(text).append(body);
    sent(waiting.size() - before);
  }

  void begin(const std::string &contentType) override {
    // A client of HTTP/1.0 reads until the end of the connection.
    if (!chunked)
      keepAlive = false;
    std::string text =
        head(200, contentType,
             {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}});
    if (chunked)
      text += "Transfer-Encoding: chunked\r\n";
    send(text + "\r\n");
  }

  void write(std::string_view part) override {
    if (part.empty() || !open)
      return;
    size_t before = waiting.size();
    if (chunked) {
      char size[16];
      char *end = std::to_chars(size, std::end(size), part.size(), 16).ptr;
      waiting.append(size, end).append("\r\n");
    }
    waiting += part;
    if (chunked)
      waiting += "\r\n";
    sent(waiting.size() - before);
  }

  void end() override {
    answered = true;
    send(chunked ? "0\r\n\r\n" : "");
  }

  size_t unsent() const override { return waiting.size() + writing.size(); }
  bool isOpen() const override { return open; }

  void post(std::function<void()> function) override {
    asio::post(strand, [self = self(), function = std::move(function)] {
      self->guarded(function);
    });
  }
  void postBrief(std::function<void()> function) override {
    std::function<void()> dropped; // not under the mutex
    std::lock_guard lock(briefMutex);
    brief.push_back(std::move(function));
    if (briefWaits)
      return;
    try {
      briefWaits = inbox.add(self());
    } catch (...) { // who posts hears of it
      dropped = std::move(brief.back());
      brief.pop_back();
      throw;
    }
    if (!briefWaits) {
      dropped = std::move(brief.back());
      brief.pop_back();
    }
  }
  /// Of a server that ends: what was posted may hold the connection.
  void dropBrief() {
    std::vector<std::function<void()>> dropped; // not under the mutex
    std::lock_guard lock(briefMutex);
    briefWaits = false;
    dropped.swap(brief);
  }

  /// Runs what was posted as brief in the strand: now, where that is free.
  static void runBrief(const std::shared_ptr<Connection> &connection) {
    asio::dispatch(connection->strand, [self = connection] {
      {
        std::lock_guard lock(self->briefMutex);
        self->running.swap(self->brief);
        self->briefWaits = false;
      }
      self->guarded([&] {
        for (const auto &function : self->running)
          function();
      });
      self->running.clear(); // and keeps its memory for the next
    });
  }

private:
  std::shared_ptr<Connection> self() {
    return std::static_pointer_cast<Connection>(shared_from_this());
  }

  void shakeHands() {
    stream.expires_after(state->options.headerTime);
    stream.tls()->async_handshake(
        asio::ssl::stream_base::server, [self = self()](ErrorCode error) {
          if (!error) {
            self->readHeader();
            return;
          }
          ErrorCode ignored;
          if (isPlainHttp(error))
            self->stream.socket().write_some(asio::buffer(kWantsTls), ignored);
          self->close();
        });
  }
  static constexpr std::string_view kWantsTls =
      "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n"
      "Content-Type: text/plain\r\nContent-Length: 41\r\n\r\n"
      "This port speaks HTTPS: ask for https://\n";

  void readHeader() {
    if (!open)
      return;
    answered = false;
    setHandling(false);
    current = {};
    parser.emplace();
    parser->header_limit(state->options.largestHeader);
    parser->body_limit(state->options.largestBody);
    stream.expires_after(state->options.headerTime);
    http::async_read_header(
        stream, buffer, *parser,
        [self = self()](ErrorCode error, size_t) { self->onHeader(error); });
  }

  void onHeader(ErrorCode error) {
    // What is refused is answered as its method wants it.
    current.method = std::string(parser->get().method_string());
    if (error) {
      refuse(error);
      return;
    }
    keepAlive = parser->keep_alive() && !state->closing;
    chunked = parser->get().version() >= 11;
    if (auto refused = refusedHeader(parser->get().base())) {
      refuse(*refused);
      return;
    }
    takeHeader();
    if (beast::iequals(parser->get()[http::field::expect], "100-continue") &&
        chunked) {
      auto text =
          std::make_shared<std::string>("HTTP/1.1 100 Continue\r\n\r\n");
      asio::async_write(stream, asio::buffer(*text),
                        [self = self(), text](ErrorCode error, size_t) {
                          if (error)
                            self->close();
                          else
                            self->readBody();
                        });
      return;
    }
    readBody();
  }

  /// Before the body: the parser adds the fields of a trailer to the header's.
  void takeHeader() {
    auto &message = parser->get();
    auto field = [&](http::field name) { return std::string(message[name]); };
    std::string target(message.target());
    current.host = field(http::field::host);
    // As proxies are asked: its host counts, not the header's (RFC
    // 9112, 3.2.2).
    for (std::string_view scheme : {"http://", "https://"})
      if (beast::iequals(target.substr(0, scheme.size()), scheme)) {
        target.erase(0, scheme.size());
        size_t end = std::min(target.find_first_of("/?"), target.size());
        current.host = target.substr(0, end);
        target.erase(0, end);
        if (!target.starts_with('/'))
          target.insert(0, 1, '/');
        break;
      }
    size_t query = target.find('?');
    current.path = target.substr(0, query);
    if (query != std::string::npos)
      current.query = target.substr(query + 1);
    current.origin = field(http::field::origin);
    current.authorization = field(http::field::authorization);
    current.contentType = field(http::field::content_type);
  }

  void readBody() {
    stream.expires_after(state->options.bodyTime);
    http::async_read(
        stream, buffer, *parser,
        [self = self()](ErrorCode error, size_t) { self->onBody(error); });
  }

  void onBody(ErrorCode error) {
    if (error) {
      refuse(error);
      return;
    }
    stream.expires_never();
    current.body = std::move(parser->get().body());
    parser.reset();
    setHandling(true);
    ++served;
    watch();
    guarded([&] { state->handler(shared_from_this()); });
  }

  /// What the function writes is sent when it has ended. Without memory only
  /// this answer fails.
  template <typename Function> void guarded(Function &&function) {
    try {
      {
        auto release = std::unique_ptr<bool, void (*)(bool *)>(
            &holds, [](bool *flag) { *flag = false; });
        holds = true;
        function();
      }
      if (std::exchange(held, false) && open && !busy)
        writeNow();
    } catch (const std::exception &) {
      close();
    }
  }

  /// An answer to what is no request that we take; the connection ends.
  void refuse(ErrorCode error) {
    int status =
        error == http::error::body_limit     ? 413
        : error == http::error::header_limit ? 431
        : error.category() ==
                http::make_error_code(http::error::bad_method).category()
            ? 400
            : 0;
    if (status == 0 || error == http::error::end_of_stream ||
        error == http::error::partial_message) {
      close();
      return;
    }
    std::string what =
        status == 413
            ? "the body is larger than " +
                  std::to_string(state->options.largestBody) + " bytes"
        : status == 431
            ? "the header is larger than " +
                  std::to_string(state->options.largestHeader) + " bytes"
            : "this is no HTTP request: " + error.message();
    refuse({status,
            status == 413   ? "body_too_large"
            : status == 431 ? "header_too_large"
                            : "bad_http",
            std::move(what)});
  }
  void refuse(const RefusedRequest &refused) {
    keepAlive = false;
    lingers = true;
    respond(refused.status, "application/json",
            "{\"error\":{\"message\":\"" + refused.what +
                "\",\"type\":\"invalid_request_error\",\"param\":null,"
                "\"code\":\"" +
                refused.code + "\"}}",
            {});
  }

  /// Notices a client that goes while its answer is made.
  void watch() {
    stream.socket().async_wait(tcp::socket::wait_read, [self = self(),
                                                        request = served](
                                                           ErrorCode error) {
      if (error || !self->open || !self->handling || request != self->served)
        return;
      char byte;
      ssize_t got = recv(self->stream.socket().native_handle(), &byte, 1,
                         MSG_PEEK | MSG_DONTWAIT);
      if (got > 0)
        self->look(request);
      else if (got < 0 && (errno == EAGAIN || errno == EINTR))
        self->watch();
      else
        self->close();
    });
  }

  /// Closes the connection when the client has gone, while a request is handled
  /// and the next one waits unread, behind which an end of the stream is not
  /// seen by reading. Polls every 0.5 s.
  void look(uint64_t request) {
    patience.expires_after(std::chrono::milliseconds(500));
    patience.async_wait([self = self(), request](ErrorCode error) {
      if (error || !self->open || !self->handling || request != self->served)
        return;
      pollfd asked{self->stream.socket().native_handle(), POLLRDHUP, 0};
      if (poll(&asked, 1, 0) > 0)
        self->close();
      else
        self->look(request);
    });
  }

  std::string head(int status, const std::string &contentType,
                   const HttpHeaders &headers) {
    keepAlive = keepAlive && !state->closing;
    std::string text = "HTTP/1.1 " + std::to_string(status) + " " +
                       reasonOf(status) + "\r\nContent-Type: " + contentType +
                       "\r\nX-Content-Type-Options: nosniff\r\n";
    for (const auto &[name, value] : headers)
      text += name + ": " + value + "\r\n";
    if (!keepAlive)
      text += "Connection: close\r\n";
    return text;
  }

  void send(std::string_view text) {
    if (!open)
      return;
    waiting += text;
    sent(text.size());
  }

  /// So many bytes more are in `waiting`.
  void sent(size_t bytes) {
    constexpr size_t mostHeld = 256 << 10;
    if (!busy && (!holds || waiting.size() > mostHeld))
      writeNow();
    else
      held = holds;
    // A part may be larger than what may wait, but not behind that.
    if (unsent() > state->options.mostUnsent + bytes)
      close();
  }

  /// What the socket takes at once is sent without a timer and a handler.
  void writeNow() {
    if (writing.empty())
      std::swap(writing, waiting);
    ErrorCode error; // is found again by who waits
    if (!writing.empty() && !stream.tls())
      written += stream.socket().write_some(
          asio::buffer(writing.data() + written, writing.size() - written),
          error);
    if (written != writing.size() || !waiting.empty() || error) {
      writeMore();
      return;
    }
    writing.clear();
    written = 0;
    if (!answered)
      return;
    busy = true; // whoever answers is not done with it yet
    asio::post(strand, [self = self()] {
      self->busy = false;
      if (self->open)
        self->finish();
    });
  }

  void writeMore() {
    if (written == writing.size()) {
      writing.clear();
      written = 0;
      std::swap(writing, waiting);
      if (writing.empty()) {
        if (answered)
          finish();
        else if (onTaken)
          guarded(std::exchange(onTaken, nullptr));
        return;
      }
    }
    busy = true;
    stream.expires_after(state->options.writeTime);
    stream.async_write_some(
        asio::buffer(writing.data() + written, writing.size() - written),
        [self = self()](ErrorCode error, size_t count) {
          self->busy = false;
          if (error) {
            self->close();
            return;
          }
          self->stream.expires_never();
          self->written += count;
          self->writeMore();
        });
  }

  void finish() {
    setHandling(false);
    patience.cancel();
    onClosed = nullptr;
    onTaken = nullptr;
    writing.shrink_to_fit();
    waiting.shrink_to_fit();
    if (keepAlive) {
      readHeader();
      return;
    }
    stream.expires_after(std::chrono::seconds(2)); // of all reads together
    if (stream.tls() && !lingers) {
      stream.tls()->async_shutdown(
          [self = self()](ErrorCode) { self->close(); });
      return;
    }
    ErrorCode ignored;
    if (!stream.tls())
      stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (lingers)
      linger();
    else
      close();
  }

  /// Reads what the client still sends, so that it can read our answer before
  /// the connection is reset; for a while only.
  void linger() {
    rest.resize(16384);
    stream.async_read_some(asio::buffer(rest),
                           [self = self()](ErrorCode error, size_t count) {
                             self->lingered += count;
                             if (error || self->lingered > 64u << 20)
                               self->close();
                             else
                               self->linger();
                           });
  }

  void close() {
    if (!open)
      return;
    open = false;
    patience.cancel();
    ErrorCode ignored;
    stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream.socket().close(ignored);
    waiting.clear();
    if (handling && onClosed)
      std::exchange(onClosed, nullptr)();
    onClosed = nullptr;
    onTaken = nullptr;
    setHandling(false);
  }

  void setHandling(bool now) {
    if (now != std::exchange(handling, now))
      state->answering += now ? 1 : size_t(-1);
  }

  const Strand strand;
  const std::shared_ptr<ServerState> state;
  HttpStream stream;
  Inbox &inbox;          ///< the state's
  std::mutex briefMutex; ///< guards what follows, before the inbox's
  std::vector<std::function<void()>> brief;
  bool briefWaits = false;                    ///< the inbox has this connection
  std::vector<std::function<void()>> running; ///< of the strand
  beast::flat_buffer buffer;
  asio::steady_timer patience{strand};
  std::optional<http::request_parser<http::string_body>> parser;
  HttpRequest current;
  std::string writing, waiting; ///< `writing` is Asio's while `busy`
  std::string rest;
  size_t written = 0, lingered = 0;
  uint64_t served = 0;
  bool open = true, busy = false, keepAlive = false, chunked = true;
  bool lingers = false;
  bool holds = false;    ///< a function runs that may write more
  bool held = false;     ///< it has written
  bool answered = false; ///< all of the answer is in `waiting` or written
  bool handling = false; ///< a request is being answered
};

} // namespace knapper::serving
