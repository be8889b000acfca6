// LLVM's archives draw seeds from arc4random, which came with glibc 2.36. With
// this one, what we ship needs glibc 2.34 only.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sys/random.h>

extern "C" uint32_t arc4random() noexcept {
  uint32_t value = 0;
  size_t have = 0;
  while (have < sizeof(value)) {
    ssize_t got = getrandom(reinterpret_cast<char *>(&value) + have,
                            sizeof(value) - have, 0);
    if (got > 0)
      have += static_cast<size_t>(got);
  }
  return value;
}
