// A request of the process itself: the service's answer without a network.
#pragma once

#include "serving/http/HttpExchange.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

namespace knapper::serving {

/// What the service posts runs on the thread that polls, so that texts are made
/// there and not on the engine's thread. Thread-safe; one thread polls at a
/// time.
class LocalExchange final : public HttpExchange {
public:
  /// `path` and `body` as over HTTP: a body makes it a POST of JSON.
  LocalExchange(std::string path, std::optional<std::string> body);

  /// Hands it to the service; tokenises on the caller's thread.
  void start(const HttpHandler &service);
  struct Part {
    int status = 200;
    std::string text; ///< the whole answer, or one event of a stream
  };
  /// The next part; nothing when none came in time, or when `ended`.
  std::optional<Part> poll(std::chrono::milliseconds patience);
  /// No part is left, and none will come.
  bool ended() const;
  /// The client is gone: what still runs ends at the engine's next step.
  void close();

  const HttpRequest &request() const override { return asked; }
  void respond(int status, const std::string &contentType, std::string body,
               const HttpHeaders &headers) override;
  void begin(const std::string &) override {}
  void write(std::string_view part) override;
  void end() override;
  size_t unsent() const override;
  bool isOpen() const override;
  void post(std::function<void()> function) override;
  /// Runs it now, on the caller's thread: not from within the service.
  void postSoon(std::function<void()> function) override;

private:
  void runPosted();
  void tellTaken();

  HttpRequest asked;
  std::mutex strand; ///< held while the service's functions run
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> posted; ///< under `mutex`, as all below
  std::deque<Part> parts;
  size_t bytes = 0; ///< of `parts`
  bool open = true, complete = false;
};

} // namespace knapper::serving
