// What a server counts, in Prometheus' text format.
#pragma once

#include "serving/engine/Engine.h"

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>

namespace knapper::serving {

/// Counts by upper bounds. Thread-safe.
class LatencyHistogram {
public:
  void add(double seconds);
  void appendTo(std::string &text, const char *name, const char *help) const;

private:
  static constexpr std::array<double, 16> bounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
      0.5,   1,      2.5,   5,    10,    30,   60,  120};
  std::array<std::atomic<uint64_t>, bounds.size() + 1> counts{};
  std::atomic<uint64_t> microseconds{0};
};

class ServerMetrics {
public:
  using Clock = std::chrono::steady_clock;
  LatencyHistogram firstToken, betweenTokens, wholeRequest;
  std::atomic<int64_t> active{0}; ///< generations and long texts, not over
  std::atomic<uint64_t> promptTokens{0}, completionTokens{0};
  std::atomic<uint64_t> clientsGone{0};

  void countResponse(const std::string &path, int status);
  /// All of it, with the engine's own figures.
  std::string text(const EngineStatistics &engine, size_t connections) const;

private:
  mutable std::mutex mutex;
  std::map<std::pair<std::string, int>, uint64_t> responses; ///< under `mutex`
};

/// One more of `active` until it ends, also by an exception.
class ActiveRequest {
public:
  explicit ActiveRequest(ServerMetrics &metrics) : metrics(metrics) {
    ++metrics.active;
  }
  ~ActiveRequest() { --metrics.active; }
  ActiveRequest(const ActiveRequest &) = delete;
  ActiveRequest &operator=(const ActiveRequest &) = delete;

private:
  ServerMetrics &metrics;
};

} // namespace knapper::serving
