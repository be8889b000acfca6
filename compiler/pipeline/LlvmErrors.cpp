#include "compiler/pipeline/LlvmErrors.h"

#include "runtime/base/ForkMutex.h"

#include "llvm/Support/ErrorHandling.h"
#include <execinfo.h>
#include <new>
#include <stdexcept>

namespace knapper {

void throwLlvmErrors() {
  // LLVM keeps its handlers in globals; the static library has LLVM to itself.
  struct Handlers;
  forkOnce<Handlers>([] {
    // glibc loads what it unwinds with when it is first needed: now, while
    // there is memory.
    void *frame;
    backtrace(&frame, 1);
    llvm::install_bad_alloc_error_handler(
        [](void *, const char *, bool) { throw std::bad_alloc(); });
    llvm::install_fatal_error_handler([](void *, const char *reason, bool) {
      throw std::runtime_error(reason);
    });
  });
}

} // namespace knapper
