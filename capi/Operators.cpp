// Operators that the caller registers.
#include "capi/Handles.h"

#include "runtime/operators/Registry.h"

using namespace knapper;
using namespace knapper::capi;

knapper_error *knapper_register_operator(const knapper_operator *given) {
  return guarded([&]() -> Status {
    if (!given)
      return userError("operator is NULL", "knapper_register_operator");
    Expected<knapper_operator> definition = readOptions<knapper_operator>(
        given, KNAPPER_OPERATOR_INIT, "knapper_operator");
    if (!definition)
      return definition.takeError();
    return registerOperator(*definition);
  });
}

knapper_error *knapper_unregister_operator(const char *domain,
                                           const char *name) {
  return guarded([&]() -> Status {
    if (!domain || !name)
      return userError("domain or name is NULL", "knapper_unregister_operator");
    if (!unregisterOperator(domain, name))
      return userError("there is no such operator", operatorText(domain, name),
                       "check domain and name");
    return success();
  });
}

int knapper_has_operator(const char *domain, const char *name) {
  return domain && name && findOperator(domain, name) != nullptr;
}

knapper_error *knapper_load_operators(const char *path) {
  if (!path)
    return guarded([]() -> Status {
      return userError("path is NULL", "knapper_load_operators");
    });
  knapper_error *error = nullptr;
  knapper_error *failed = guarded([&] {
    return loadOperators(path, [&](knapper_operators_function *enter) {
      error = enter(knapper_register_operator);
      return success();
    });
  });
  return failed ? failed : error;
}
