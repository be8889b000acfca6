// Where temporaries lie in one arena: offsets from sizes and live ranges. Pure
// functions, used by the runtime at binding and by the compiler to print peaks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace knapper {

/// A temporary that is alive during instructions first..last, both included.
struct PlanRequest {
  uint64_t bytes = 0;
  uint32_t first = 0;
  uint32_t last = 0;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets; // one per request, multiples of the alignment
  uint64_t bytes = 0;            // size of the arena
  uint64_t liveBytes = 0; // largest sum of (aligned) bytes alive at once: no
                          // plan is smaller
};

/// Requests that are alive at the same time never overlap. Deterministic. The
/// sum of all bytes must be below 2^63.
MemoryPlan planMemory(std::span<const PlanRequest> requests,
                      uint64_t alignment = 64);

} // namespace knapper
