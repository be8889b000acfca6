// One request over HTTP and its answer, as a service sees them.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace knapper::serving {

struct HttpRequest {
  std::string method, path, query; ///< the target's parts, not decoded
  std::string host, origin, authorization, contentType;
  std::string body;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// All functions but those that post are called on the exchange's own
/// thread of execution: in the service's handler and in what was posted.
class HttpExchange : public std::enable_shared_from_this<HttpExchange> {
public:
  virtual ~HttpExchange() = default;
  virtual const HttpRequest &request() const = 0;
  /// The whole answer, once.
  virtual void respond(int status, const std::string &contentType,
                       std::string body, const HttpHeaders &headers = {}) = 0;
  /// Or an answer in parts: status 200, then `write`, and `end` at last.
  virtual void begin(const std::string &contentType) = 0;
  virtual void write(std::string_view part) = 0;
  virtual void end() = 0;
  /// Bytes that the client has not taken yet.
  virtual size_t unsent() const = 0;
  /// False once the client is gone; what is written then is dropped.
  virtual bool isOpen() const = 0;
  /// Runs a function later, from any thread.
  virtual void post(std::function<void()> function) = 0;
  /// The same for what is over at once, as a token's event: many are run one
  /// after the other by a thread that is woken once.
  virtual void postBrief(std::function<void()> function) {
    post(std::move(function));
  }
  /// The same for what must not wait until the client asks for more.
  virtual void postSoon(std::function<void()> function) {
    post(std::move(function));
  }
  /// Posts it also where there is no memory at first: not even for the
  /// `std::function`, which is therefore made here.
  template <typename Function> void postSurely(const Function &function) {
    while (true)
      try {
        return post(std::function<void()>(function));
      } catch (const std::exception &) { // others give some memory back
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
  }
  /// Called when the client goes before the answer is complete.
  std::function<void()> onClosed;
  /// Called once, when the client has taken all that was written; set only
  /// while megabytes are unsent.
  std::function<void()> onTaken;
};

using HttpHandler = std::function<void(const std::shared_ptr<HttpExchange> &)>;

} // namespace knapper::serving
