/* Runs on tensors that are objects of an interpreter. For the Python package,
 * which belongs to this library: no part of the C API that is kept stable. */
#pragma once

#include "knapper/knapper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  size_t size;
  void *(*item)(void *list, intptr_t index); /* borrowed; NULL: there is none */
  long long (*integer)(void *object);
  /* Fills a DLTensor (DLPack 1.x) that is valid while the object lives; 0, or
   * something else where the object is no tensor. */
  int (*tensor)(void *object, void *dl_tensor);
  /* Called before and after the run itself, on the same thread, to let others
   * in: what `leave` gives is handed to `enter`. Both may be NULL. */
  void *(*leave)(void);
  void (*enter)(void *state);
  /* The stream that the interpreter's program works in on a device (its DLPack
   * type and number); 0, or something else on failure. */
  int (*stream)(int32_t device_type, int32_t device, void **stream);
} knapper_object_reader;
typedef struct {
  int32_t index; /* in its list */
  int32_t rank;
  knapper_dtype dtype;
  int32_t is_integer;   /* 1: an integer of the interpreter, as a 0-d i64 */
  const int32_t *order; /* rank dims from the outermost in memory inwards; NULL:
                           their own order */
} knapper_object;
/* Runs the module. inputs and outputs: where the module's are in the two lists
 * (which may be one). Outputs are written in place. device: the number of the
 * CUDA device that has the module and must have all tensors: the run takes its
 * place in the interpreter's stream and is not waited for; -1: the CPU.
 * *refused is 1, and nothing has run, where an object is not dense in the order
 * that is told, not of that rank, in other memory, or an output without
 * elements: hand those to knapper_run. Thread-safe as knapper_run. */
KNAPPER_API knapper_error *
knapper_run_objects(knapper_module *module, const knapper_object_reader *reader,
                    void *input_list, const knapper_object *inputs,
                    int32_t num_inputs, void *output_list,
                    const knapper_object *outputs, int32_t num_outputs,
                    int32_t device, int32_t *refused);

#ifdef __cplusplus
}
#endif
