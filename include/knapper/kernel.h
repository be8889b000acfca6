/* How Knapper calls a CPU kernel of yours (docs/user-kernels.md).
 *
 * Who includes this: the source of an object file for `--kernels`. That file
 * needs nothing else of Knapper, and is not linked with it. */
#ifndef KNAPPER_KERNEL_H
#define KNAPPER_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call may use beside its operands. Each thread has one. It is valid
 * during the call. */
typedef struct knapper_kernel_context {
  void *
      scratch; /* of "scratch" bytes, aligned to 64 bytes, contents undefined */
  int32_t *status;      /* set it to a knapper_kernel_status; never reset it */
  int32_t worker_index; /* of this thread: 0 .. workers - 1 */
  int32_t workers;
} knapper_kernel_context;

/* Values for `*context->status`. Any but KNAPPER_KERNEL_OK ends the run with a
 * user error. */
typedef enum knapper_kernel_status {
  KNAPPER_KERNEL_OK = 0,
  KNAPPER_KERNEL_INDEX_OUT_OF_RANGE = 1,
  KNAPPER_KERNEL_DIVISION_BY_ZERO = 2
} knapper_kernel_status;

/* Computes the programs begin .. end - 1 of the kernel's one-dimensional grid.
 *
 * - buffers: one address for each operand, inputs before results. A tensor is
 *   dense and row-major. Its address is a multiple of 16, unless the caller of
 *   the run gave the memory. Results overlap no other operand. With "in_place"
 *   a result may lie in the memory of an input of the same size.
 * - symbols: the sizes k0, k1, ... of the kernel's text, in this order.
 *
 * Threads: other ranges of the same launch run at the same time, in no defined
 * order. So two programs must not write the same memory. */
typedef void knapper_kernel_function(void *const *buffers,
                                     const int64_t *symbols,
                                     const knapper_kernel_context *context,
                                     int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
