/* Runs a compiled model once on inputs of ones: run MODEL.knap [SIZE] */
#include <knapper/knapper.h>
#include <stdio.h>
#include <stdlib.h>

static void check(knapper_error *error) {
  if (!error)
    return;
  fprintf(stderr, "%s\n", knapper_error_get_message(error));
  exit(1);
}

int main(int argc, char **argv) {
  knapper_module *module;
  check(knapper_load(argc > 1 ? argv[1] : "model.knap", NULL, &module));
  int32_t count = knapper_module_num_inputs(module);
  knapper_tensor *inputs = calloc(count, sizeof *inputs);
  for (int32_t i = 0; i < count; ++i) {
    knapper_tensor_info info = {.size = sizeof info};
    check(knapper_module_input(module, i, &info));
    int64_t *shape = calloc(info.rank + 1, sizeof *shape), elements = 1;
    for (int32_t d = 0; d < info.rank; ++d) /* symbolic dims: SIZE */
      elements *= shape[d] = info.shape[d] >= 0 ? info.shape[d]
                             : argc > 2         ? atoll(argv[2])
                                                : 1;
    size_t bytes = elements * knapper_dtype_size(info.dtype);
    inputs[i] = (knapper_tensor){calloc(1, bytes + 1), bytes, info.dtype,
                                 info.rank, shape};
    for (int64_t k = 0; k < elements && info.dtype == KNAPPER_F32; ++k)
      ((float *)inputs[i].data)[k] = 1;
  }
  knapper_result *result;
  check(knapper_run(module, inputs, count, NULL, 0, &result));
  for (int32_t i = 0; i < knapper_result_num_outputs(result); ++i) {
    knapper_tensor t;
    check(knapper_result_output(result, i, &t));
    printf("output %d: %s, %zu bytes, first %g\n", i,
           knapper_dtype_name(t.dtype), t.bytes,
           t.dtype == KNAPPER_F32 && t.bytes ? *(float *)t.data : 0.0);
  }
  knapper_result_release(result);
  for (int32_t i = 0; i < count; ++i) {
    free(inputs[i].data);
    free((void *)inputs[i].shape);
  }
  free(inputs);
  knapper_module_release(module);
  return 0;
}
