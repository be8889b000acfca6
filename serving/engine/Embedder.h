// Texts to vectors, as the HTTP server sees it. Thread-safe.
#pragma once

#include "runtime/base/Error.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace knapper::serving {

class Embedder {
public:
  virtual ~Embedder() = default;

  /// Vectors of all texts, one after the other.
  using Done = std::function<void(Expected<std::vector<float>>)>;
  /// Queues texts, as tokens: none empty, none longer than the context. `done`
  /// is called on the engine's thread, once; with an error at the next step
  /// once `*gone` is true. Refuses what Engine::submit does.
  virtual Status embed(std::vector<std::vector<int32_t>> texts, Done done,
                       std::shared_ptr<const std::atomic<bool>> gone) = 0;
  virtual int32_t width() const = 0; ///< numbers of a vector
};

} // namespace knapper::serving
