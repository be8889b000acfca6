#include "runtime/memory/Planner.h"

#include "runtime/base/Checked.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace knapper {
namespace {

// Above this many requests only the first ordering is tried: each costs
// n^2 comparisons.
constexpr size_t kManyRequests = 1500;
// Repairs tried when no ordering comes within a twentieth of the bound.
constexpr int kRepairs = 256;

struct Packer {
  std::span<const PlanRequest> requests;
  std::vector<uint64_t> sizes; // aligned

  struct Layout {
    std::vector<uint64_t> offsets;
    uint64_t bytes = 0;
    uint32_t highest = 0; // the request that ends last
  };

  bool overlap(uint32_t a, uint32_t b) const {
    return requests[a].first <= requests[b].last &&
           requests[b].first <= requests[a].last;
  }

  /// Places requests in `order`, each into the smallest gap that holds it
  /// between those placed before it and alive with it.
  Layout place(const std::vector<uint32_t> &order) const {
    Layout layout;
    layout.offsets.assign(requests.size(), 0);
    std::vector<uint32_t> placed; // sorted by offset
    placed.reserve(order.size());
    for (uint32_t r : order) {
      uint64_t end = 0, best = 0, bestGap = ~uint64_t(0);
      bool found = false;
      for (uint32_t p : placed) {
        if (!overlap(r, p))
          continue;
        uint64_t begin = layout.offsets[p];
        if (begin > end && begin - end >= sizes[r] && begin - end < bestGap) {
          best = end;
          bestGap = begin - end;
          found = true;
        }
        end = std::max(end, begin + sizes[p]);
      }
      uint64_t offset = found ? best : end;
      layout.offsets[r] = offset;
      if (offset + sizes[r] > layout.bytes) {
        layout.bytes = offset + sizes[r];
        layout.highest = r;
      }
      placed.insert(std::upper_bound(placed.begin(), placed.end(), offset,
                                     [&](uint64_t o, uint32_t p) {
                                       return o < layout.offsets[p];
                                     }),
                    r);
    }
    return layout;
  }

  /// The largest sum of sizes alive at once, and an instruction where it is.
  std::pair<uint64_t, uint32_t> peak() const {
    // A request counts from its first instruction until after its last.
    std::map<uint64_t, int64_t> change;
    for (size_t i = 0; i < requests.size(); ++i) {
      change[requests[i].first] += sizes[i];
      change[uint64_t(requests[i].last) + 1] -= sizes[i];
    }
    int64_t now = 0, most = 0;
    uint32_t where = 0;
    for (auto [at, delta] : change) {
      now += delta;
      if (now > most) {
        most = now;
        where = static_cast<uint32_t>(at);
      }
    }
    return {most, where};
  }
};

} // namespace

MemoryPlan planMemory(std::span<const PlanRequest> requests,
                      uint64_t alignment) {
  Packer packer{requests, {}};
  packer.sizes.reserve(requests.size());
  for (const PlanRequest &r : requests)
    packer.sizes.push_back(alignUp(r.bytes, alignment));
  std::pair<uint64_t, uint32_t> peak = packer.peak();
  uint64_t bound = peak.first;

  std::vector<uint32_t> order(requests.size());
  auto duration = [&](uint32_t r) {
    return uint64_t(requests[r].last) - requests[r].first + 1;
  };
  auto sorted = [&](auto key) {
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      auto keyA = key(a), keyB = key(b);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    return order;
  };

  Packer::Layout best;
  std::vector<uint32_t> bestOrder;
  auto attempt = [&](const std::vector<uint32_t> &candidate) {
    Packer::Layout layout = packer.place(candidate);
    bool better =
        bestOrder.size() != candidate.size() || layout.bytes < best.bytes;
    if (better) {
      best = std::move(layout);
      bestOrder = candidate;
    }
    return best.bytes == bound;
  };

  auto search = [&] {
    if (attempt(sorted([&](uint32_t r) { return packer.sizes[r]; })) ||
        requests.size() > kManyRequests)
      return;
    if (attempt(sorted([&](uint32_t r) {
          return double(packer.sizes[r]) * double(duration(r));
        })) ||
        attempt(sorted([&](uint32_t r) { return duration(r); })) ||
        attempt(sorted([&](uint32_t r) {
          bool atPeak = requests[r].first <= peak.second &&
                        peak.second <= requests[r].last;
          return std::pair(atPeak, packer.sizes[r]);
        })) ||
        attempt(
            sorted([&](uint32_t r) { return -int64_t(requests[r].first); })))
      return;
    // What ends highest came too late: place it earlier, somewhere.
    std::vector<uint32_t> candidate = bestOrder;
    uint32_t highest = best.highest;
    uint64_t random = 0x9E3779B97F4A7C15;
    for (int i = 0; i < kRepairs && best.bytes > bound + bound / 20; ++i) {
      auto at = std::find(candidate.begin(), candidate.end(), highest);
      if (at == candidate.begin() || i % 16 == 15) {
        candidate = bestOrder;
        highest = best.highest;
        at = std::find(candidate.begin(), candidate.end(), highest);
        if (at == candidate.begin())
          break;
      }
      random = random * 6364136223846793005 + 1442695040888963407;
      auto to = candidate.begin() + (random >> 33) % (at - candidate.begin());
      std::rotate(to, at, at + 1);
      Packer::Layout layout = packer.place(candidate);
      highest = layout.highest;
      if (layout.bytes < best.bytes) {
        best = std::move(layout);
        bestOrder = candidate;
      }
    }
  };
  search();
  return {std::move(best.offsets), best.bytes, bound};
}

} // namespace knapper
