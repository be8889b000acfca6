// The calling convention between the runtime and a compiled CPU kernel. The
// compiler's lowering (codegen/lower) emits exactly this signature; the
// artefact's version number covers it.
#pragma once

#include <cstdint>

namespace knapper {

/// What a kernel may use beside its operands. One per worker thread, alive for
/// the call.
struct KernelContext {
  void *scratch; // 64-byte aligned, Choice.scratch bytes, contents undefined on
                 // entry
  int32_t *status; // the kernel may set *status to a KernelStatus; never reset
                   // by kernels
  int32_t workerIndex; // 0 .. workers-1
  int32_t workers;
};

enum KernelStatus : int32_t {
  kernelOk = 0,
  kernelIndexOutOfRange =
      1, // gather/scatter index outside its axis (the access was clamped)
  kernelDivisionByZero = 2, // integer division by zero (the result was 0)
  kernelLibraryFailed = 3,  // a vendor library's call returned an error
};

/// Runs the programs [begin, end) of the kernel's one-dimensional grid.
///   buffers  one pointer per operand: inputs first, then outputs, in the
///   kernel's order;
///            each aligned to at least 16 bytes unless it is the caller's own
///            memory
///   symbols  values of the kernel's symbols (sizes), in the kernel's order
/// Different ranges of one launch may run concurrently on different threads.
using KernelFn = void (*)(void *const *buffers, const int64_t *symbols,
                          const KernelContext *context, int64_t begin,
                          int64_t end);

} // namespace knapper
