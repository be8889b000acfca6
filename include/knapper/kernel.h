/* How a kernel of your own for CPUs is called: see docs/user-kernels.md. The
 * header alone is needed; an object file that is given to --kernels is linked
 * with nothing of Knapper. */
#ifndef KNAPPER_KERNEL_H
#define KNAPPER_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call may use beside its operands. One per thread, alive for the call.
 */
typedef struct knapper_kernel_context {
  void *
      scratch; /* of "scratch" bytes, aligned to 64 bytes, contents undefined */
  int32_t *status;      /* a knapper_kernel_status may be set; never reset it */
  int32_t worker_index; /* 0 .. workers - 1 */
  int32_t workers;
} knapper_kernel_context;

/* What a call may set `*context->status` to; the run then ends with a user
 * error. */
typedef enum knapper_kernel_status {
  KNAPPER_KERNEL_OK = 0,
  KNAPPER_KERNEL_INDEX_OUT_OF_RANGE = 1,
  KNAPPER_KERNEL_DIVISION_BY_ZERO = 2
} knapper_kernel_status;

/* Runs the programs begin .. end - 1 of the kernel's one-dimensional grid.
 *
 * - buffers: an address for each operand, inputs before results, dense and
 *   row-major, aligned to 16 bytes at least unless it is memory of the
 *   caller's. Results overlap nothing, unless "in_place" allows them to lie
 *   over an input of their size.
 * - symbols: the sizes k0, k1, ... of the kernel's text, in order.
 *
 * Other ranges of the launch run at the same time on other threads, and the
 * order of ranges is not defined: programs write apart from each other. */
typedef void knapper_kernel_function(void *const *buffers,
                                     const int64_t *symbols,
                                     const knapper_kernel_context *context,
                                     int64_t begin, int64_t end);

#ifdef __cplusplus
}
#endif

#endif
