#include "runtime/numeric/NumericOperators.h"

#include <cstring>

namespace knapper::numeric {

int failCall(const knapper_call *call, const char *message) {
  call->fail(call, message);
  return 1;
}

int64_t integerOf(const knapper_call *call, const char *name,
                  int64_t otherwise) {
  for (int32_t i = 0; i < call->num_attributes; ++i) {
    const knapper_attribute &found = call->attributes[i];
    if (strcmp(found.name, name) == 0 && found.kind == KNAPPER_ATTRIBUTE_INT)
      return found.ints[0];
  }
  return otherwise;
}

} // namespace knapper::numeric

extern "C" __attribute__((visibility("default"))) knapper_error *
knapper_operators(knapper_register_function *add) {
  using namespace knapper::numeric;
  for (const auto &operators : {elementOperators(), matrixOperators()})
    for (const knapper_operator &op : operators)
      if (knapper_error *error = add(&op))
        return error;
  return nullptr;
}
