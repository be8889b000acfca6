// A connection to a server over HTTP/1.1, with TLS or without: one request at a
// time, the answer's parts as they come.
#pragma once

#include "runtime/base/Error.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace knapper::serving {

struct HttpUrl {
  std::string host, port, prefix; ///< "", or "/v1"
  bool secure = false;            ///< https

  /// UserError for all but http[s]://HOST[:PORT][/PREFIX].
  static Expected<HttpUrl> parse(const std::string &url);
};

/// Used by one thread at a time. Errors are the device's: no connection, no
/// answer in time, an answer that is no HTTP. After one the connection is of no
/// more use.
class HttpClient {
public:
  /// Asked about ten times a second while it waits: false gives the answer up,
  /// which is an error of `send`, and closes the connection. Null: not asked.
  std::function<bool()> wanted;
  /// `seconds`: how long the connection, and then each part, may take.
  static Expected<std::unique_ptr<HttpClient>> connect(const HttpUrl &url,
                                                       double seconds);
  ~HttpClient();

  /// The status. `part` gets what came of the body, as it came. A body makes it
  /// a POST of JSON, "" a GET; `key` is the API key, or "".
  Expected<int> send(const std::string &path, const std::string &body,
                     const std::string &key,
                     const std::function<void(std::string_view)> &part);
  /// Whether the server keeps the connection for another request.
  bool isOpen() const;

private:
  struct Connection;
  explicit HttpClient(std::unique_ptr<Connection> connection);
  std::unique_ptr<Connection> connection;
};

} // namespace knapper::serving
