/* Runs a compiled model on ones: run MODEL.knap [SIZE of symbolic dims] */
#include <knapper/knapper.h>
#include <stdio.h>
#include <stdlib.h>

static void check(knapper_error *error) {
  if (error)
    exit(fprintf(stderr, "%s\n", knapper_error_get_message(error)) && 1);
}

int main(int argc, char **argv) {
  knapper_module *module;
  check(knapper_load(argc > 1 ? argv[1] : "model.knap", NULL, &module));
  knapper_tensor inputs[16], output;
  int32_t count = knapper_module_num_inputs(module);
  for (int32_t i = 0; i < count && i < 16; ++i) {
    knapper_tensor_info info = {.size = sizeof info};
    check(knapper_module_input(module, i, &info));
    int64_t *shape = calloc(info.rank + 1, sizeof *shape), elements = 1;
    for (int32_t d = 0; d < info.rank; ++d)
      elements *= shape[d] = info.shape[d] >= 0 ? info.shape[d]
                             : argc > 2         ? atoi(argv[2])
                                                : 1;
    size_t bytes = elements * knapper_dtype_size(info.dtype);
    float *data = calloc(1, bytes + 1);
    for (int64_t k = 0; k < elements && info.dtype == KNAPPER_F32; ++k)
      data[k] = 1;
    inputs[i] = (knapper_tensor){data, bytes, info.dtype, info.rank, shape};
  }
  knapper_result *result;
  check(knapper_run(module, inputs, count, NULL, 0, &result));
  check(knapper_result_output(result, 0, &output));
  printf("%zu bytes of %s, first %g\n", output.bytes,
         knapper_dtype_name(output.dtype), *(float *)output.data);
  knapper_result_release(result);
  for (int32_t i = 0; i < count && i < 16; ++i)
    free(inputs[i].data), free((void *)inputs[i].shape);
  knapper_module_release(module);
}
