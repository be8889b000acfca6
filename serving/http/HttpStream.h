//===- HttpStream.h - A TCP connection, with TLS or without ---------------===//
//
// What Beast and Asio want of a stream that is read and written
// asynchronously. Without TLS, calls go to the socket as they are. Handlers get
// Asio's errors. Used by one thread at a time, as a strand has it.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <optional>

namespace knapper::serving {

class HttpStream {
public:
  using Tcp = boost::beast::tcp_stream;
  using Tls = boost::asio::ssl::stream<Tcp &>;
  using executor_type = Tcp::executor_type;

  /// A socket, or the context or executor of one to come. `tls`: null for none;
  /// outlives this.
  template <typename Of>
  HttpStream(Of &&of, boost::asio::ssl::context *tls)
      : plain(std::forward<Of>(of)) {
    if (tls)
      secure.emplace(plain, *tls);
  }

  executor_type get_executor() { return plain.get_executor(); }
  Tcp &tcp() { return plain; }
  auto &socket() { return plain.socket(); }
  /// Null without TLS.
  Tls *tls() { return secure ? &*secure : nullptr; }

  /// Of all operations under way together, also a handshake's.
  template <typename Duration> void expires_after(Duration time) {
    plain.expires_after(time);
  }
  void expires_never() { plain.expires_never(); }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers &buffers, Handler &&handler) {
    if (secure)
      secure->async_read_some(buffers, std::forward<Handler>(handler));
    else
      plain.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers &buffers, Handler &&handler) {
    if (secure)
      secure->async_write_some(buffers, std::forward<Handler>(handler));
    else
      plain.async_write_some(buffers, std::forward<Handler>(handler));
  }

private:
  Tcp plain;
  std::optional<Tls> secure;
};

} // namespace knapper::serving
