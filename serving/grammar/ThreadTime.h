// Processor time of a thread: waiting for a core is not in it.
#pragma once

#include <cstdint>
#include <ctime>

namespace knapper::serving {

/// Nanoseconds that the calling thread has used.
inline uint64_t threadNanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(time.tv_nsec);
}

} // namespace knapper::serving
