#include "serving/http/LocalExchange.h"

#include <string_view>

namespace knapper::serving {

LocalExchange::LocalExchange(std::string path,
                             std::optional<std::string> body) {
  asked.method = body ? "POST" : "GET";
  asked.path = std::move(path);
  asked.host = "localhost";
  asked.contentType = "application/json";
  asked.body = std::move(body).value_or("");
}

void LocalExchange::start(const HttpHandler &service) {
  std::lock_guard running(strand);
  service(std::static_pointer_cast<LocalExchange>(shared_from_this()));
}

void LocalExchange::runPosted() {
  std::lock_guard running(strand);
  for (;;) {
    std::function<void()> next;
    {
      std::lock_guard lock(mutex);
      if (posted.empty())
        return;
      next = std::move(posted.front());
      posted.pop_front();
    }
    next();
  }
}

void LocalExchange::tellTaken() {
  std::lock_guard running(strand);
  if (std::function<void()> taken = std::exchange(onTaken, nullptr))
    post(std::move(taken));
}

std::optional<LocalExchange::Part>
LocalExchange::poll(std::chrono::milliseconds patience) {
  auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    runPosted();
    std::unique_lock lock(mutex);
    if (!parts.empty()) {
      Part part = std::move(parts.front());
      parts.pop_front();
      bytes -= part.text.size();
      bool all = bytes == 0;
      lock.unlock();
      if (all)
        tellTaken();
      return part;
    }
    if (complete || !open)
      return std::nullopt;
    if (!changed.wait_until(
            lock, until, [&] { return !posted.empty() || complete || !open; }))
      return std::nullopt;
  }
}

bool LocalExchange::ended() const {
  std::lock_guard lock(mutex);
  return parts.empty() && (complete || !open);
}

void LocalExchange::close() {
  std::lock_guard running(strand);
  std::deque<std::function<void()>> dropped; // destroyed without the mutex
  bool wasOpen = false;
  {
    std::lock_guard lock(mutex);
    wasOpen = std::exchange(open, false) && !complete;
    parts.clear();
    bytes = 0;
    dropped.swap(posted);
  }
  // It forgets the function while that runs.
  if (std::function<void()> gone = std::move(onClosed); wasOpen && gone)
    gone();
  onTaken = nullptr;
  changed.notify_all();
}

void LocalExchange::respond(int status, const std::string &, std::string body,
                            const HttpHeaders &) {
  std::lock_guard lock(mutex);
  if (open) {
    bytes += body.size();
    parts.push_back({status, std::move(body)});
  }
  complete = true;
  changed.notify_all();
}

/// Server-sent events, whole ones: their data, but for what ends the stream.
void LocalExchange::write(std::string_view part) {
  std::lock_guard lock(mutex);
  std::string_view rest = part;
  while (open && !rest.empty()) {
    size_t end = std::min(rest.find("\n\n"), rest.size());
    std::string_view event = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    if (!event.starts_with("data: ") || event == "data: [DONE]")
      continue;
    event.remove_prefix(6);
    bytes += event.size();
    parts.push_back({200, std::string(event)});
  }
  changed.notify_all();
}

void LocalExchange::end() {
  std::lock_guard lock(mutex);
  complete = true;
  changed.notify_all();
}

size_t LocalExchange::unsent() const {
  std::lock_guard lock(mutex);
  return bytes;
}

bool LocalExchange::isOpen() const {
  std::lock_guard lock(mutex);
  return open;
}

void LocalExchange::postSoon(std::function<void()> function) {
  std::lock_guard running(strand);
  if (isOpen())
    function();
}

void LocalExchange::post(std::function<void()> function) {
  std::lock_guard lock(mutex);
  // Whose client is gone has said so already; nobody would run it.
  if (!open)
    return;
  posted.push_back(std::move(function));
  changed.notify_all();
}

} // namespace knapper::serving
