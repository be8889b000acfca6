/* Two operators of the domain "my.domain" as a shared object:
 *   cc -shared -fPIC -O2 -Iinclude operators.c -o liboperators.so -lm
 * Swish: x / (1 + exp(-beta * x)), beta an attribute; Above: the elements of x
 * above a limit, as many as there are. */
#include <knapper/knapper.h>
#include <math.h>
#include <string.h>

static float number(const knapper_call *call, const char *name, float otherwise) {
  for (int32_t i = 0; i < call->num_attributes; ++i)
    if (!strcmp(call->attributes[i].name, name) &&
        call->attributes[i].kind == KNAPPER_ATTRIBUTE_FLOAT)
      return call->attributes[i].floats[0];
  return otherwise;
}

static int refuse(const knapper_call *call, const char *why) {
  call->fail(call, why);
  return 1;
}

static int swish(void *user, const knapper_call *call) {
  (void)user;
  const knapper_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  if (x->dtype != KNAPPER_F32)
    return refuse(call, "Swish takes float32");
  float beta = number(call, "beta", 1);
  const float *from = x->data;
  float *to = y->data;
  for (size_t i = 0; i < y->bytes / sizeof *to; ++i)
    to[i] = from[i] / (1 + expf(-beta * from[i]));
  return 0;
}

/* Called while a model is compiled, where the size is not known yet (-1), and
 * before each call of `above`, with the data. */
static int above_shape(void *user, const knapper_call *call,
                       knapper_result_shape *results) {
  (void)user;
  const knapper_tensor *x = &call->inputs[0];
  if (call->num_inputs != 1 || x->dtype != KNAPPER_F32)
    return refuse(call, "Above takes one tensor of float32");
  results[0].dtype = KNAPPER_F32;
  results[0].rank = 1;
  results[0].shape[0] = -1;
  if (call->running) {
    float limit = number(call, "limit", 0);
    results[0].shape[0] = 0;
    for (size_t i = 0; i < x->bytes / sizeof(float); ++i)
      results[0].shape[0] += ((const float *)x->data)[i] > limit;
  }
  return 0;
}

static int above(void *user, const knapper_call *call) {
  (void)user;
  float limit = number(call, "limit", 0);
  const float *from = call->inputs[0].data;
  float *to = call->outputs[0].data;
  for (size_t i = 0; i < call->inputs[0].bytes / sizeof *from; ++i)
    if (from[i] > limit)
      *to++ = from[i];
  return 0;
}

/* What `--operators`, knapper_load_operators and knapper.load_operators call. */
__attribute__((visibility("default"))) knapper_error *
knapper_operators(knapper_register_function *add) {
  knapper_operator op = KNAPPER_OPERATOR_INIT;
  op.domain = "my.domain";
  op.name = "Swish"; /* no shape function: the input's shape */
  op.compute = swish;
  knapper_error *error = add(&op);
  if (error)
    return error;
  op.name = "Above";
  op.shape = above_shape;
  op.compute = above;
  return add(&op);
}
