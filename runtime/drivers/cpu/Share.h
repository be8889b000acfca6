// What a worker has still to start of a launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace knapper::cpu {

/// A range of chunks. Its worker takes from the front, in order; one whose own
/// share is empty takes from the back of another's, so that programs of unequal
/// cost, or a core that is slower for a while, leave nobody waiting (work
/// stealing: Blumofe and Leiserson 1999, on ranges instead of deques). Any
/// number of threads may take at once; `set` only while none does.
class alignas(64) Share {
public:
  void set(uint32_t begin, uint32_t end) {
    range.store(pack(begin, end), std::memory_order_relaxed);
  }

  /// The first, or the last, chunk; nothing when all are taken.
  std::optional<uint32_t> takeFront() { return take(/*front=*/true); }
  std::optional<uint32_t> takeBack() { return take(/*front=*/false); }

private:
  static uint64_t pack(uint32_t begin, uint32_t end) {
    return uint64_t(begin) << 32 | end;
  }

  std::optional<uint32_t> take(bool front) {
    uint64_t old = range.load(std::memory_order_relaxed);
    for (;;) {
      auto begin = static_cast<uint32_t>(old >> 32);
      auto end = static_cast<uint32_t>(old);
      if (begin == end)
        return std::nullopt;
      uint64_t left = front ? pack(begin + 1, end) : pack(begin, end - 1);
      if (range.compare_exchange_weak(old, left, std::memory_order_relaxed))
        return front ? begin : end - 1;
    }
  }

  std::atomic<uint64_t> range{0};
};

} // namespace knapper::cpu
