// What a worker has still to start of a launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

namespace knapper::cpu {

/// A range of chunks. Its worker takes from the front, in order, a quarter of
/// what is left at a time: each time waits until all stores have left the core.
/// One whose own share is empty takes one from the back of another's, so that
/// programs of unequal cost, or a core that is slower for a while, leave nobody
/// waiting (work stealing: Blumofe and Leiserson 1999, on ranges instead of
/// deques). Any number of threads may take at once; `set` only while none does.
class alignas(64) Share {
public:
  void set(uint32_t begin, uint32_t end) {
    range.store(pack(begin, end), std::memory_order_relaxed);
  }

  struct Chunks {
    uint32_t begin, end;
    bool operator==(const Chunks &) const = default;
  };
  /// The first few chunks, or the last one; nothing when all are taken.
  std::optional<Chunks> takeFront() { return take(/*front=*/true); }
  std::optional<Chunks> takeBack() { return take(/*front=*/false); }

private:
  static uint64_t pack(uint32_t begin, uint32_t end) {
    return uint64_t(begin) << 32 | end;
  }

  std::optional<Chunks> take(bool front) {
    uint64_t old = range.load(std::memory_order_relaxed);
    for (;;) {
      auto begin = static_cast<uint32_t>(old >> 32);
      auto end = static_cast<uint32_t>(old);
      if (begin == end)
        return std::nullopt;
      constexpr uint32_t part = 4;
      Chunks taken = {begin, begin + (end - begin + part - 1) / part};
      if (!front)
        taken = {end - 1, end};
      uint64_t left = front ? pack(taken.end, end) : pack(begin, taken.begin);
      if (range.compare_exchange_weak(old, left, std::memory_order_relaxed))
        return taken;
    }
  }

  std::atomic<uint64_t> range{0};
};

} // namespace knapper::cpu
