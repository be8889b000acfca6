#include "runtime/memory/Block.h"

#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"
#include "runtime/base/Threads.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <sys/mman.h>

namespace knapper {
namespace {

constexpr uint64_t kMapped = 256 * 1024; // from here on memory is mapped
constexpr uint64_t kHuge = 2 << 20;
constexpr uint64_t kPage = 4096;

Error outOfMemory(uint64_t bytes) {
  return deviceError(cat("out of memory: cannot allocate ", bytes, " bytes"),
                     "", "use a smaller batch or sequence, or free memory");
}

} // namespace

Expected<Block> Block::allocate(uint64_t bytes) {
  Block block;
  if (bytes == 0)
    return block;
  if (bytes > uint64_t(1) << 47)
    return outOfMemory(bytes);
  if (bytes < kMapped) {
    block.size = alignUp(bytes, 64);
    block.base = aligned_alloc(64, block.size);
    if (!block.base) {
      block.size = 0;
      return outOfMemory(bytes);
    }
    return block;
  }
  uint64_t alignment = bytes >= kHuge ? kHuge : kPage;
  uint64_t size = alignUp(bytes, kPage);
  uint64_t mapped = size + (alignment - kPage);
  void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return outOfMemory(bytes);
  // What alignment made us map too much goes back.
  uint64_t begin = reinterpret_cast<uint64_t>(memory);
  uint64_t aligned = alignUp(begin, alignment);
  if (aligned != begin)
    munmap(memory, aligned - begin);
  if (uint64_t rest = begin + mapped - (aligned + size))
    munmap(reinterpret_cast<void *>(aligned + size), rest);
  block.base = reinterpret_cast<void *>(aligned);
  block.size = size;
  if (alignment == kHuge)
    madvise(block.base, size, MADV_HUGEPAGE); // a wish: no error if refused
  return block;
}

void Block::touch() {
  constexpr uint64_t part = 16 << 20; // a task; less is not worth a thread
  if (std::exchange(touched, true) || size < 2 * part)
    return;
  std::atomic<uint64_t> next = 0;
  auto work = [&] {
    for (uint64_t begin; (begin = next.fetch_add(part)) < size;)
      for (uint64_t at = begin; at < std::min(size, begin + part); at += kPage)
        static_cast<volatile char *>(base)[at] = 0;
  };
  runOnThreads(std::min({uint64_t(8), size / part,
                         uint64_t(std::thread::hardware_concurrency())}),
               work);
}

Block::~Block() {
  if (!base)
    return;
  if (size < kMapped)
    free(base);
  else
    munmap(base, size);
}

} // namespace knapper
