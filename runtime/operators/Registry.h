// The process's operators, by domain and name.
#pragma once

#include "runtime/operators/Operator.h"

namespace knapper {

/// Takes the place of one of the same domain and name; who holds that keeps it.
/// "ai.onnx" is the domain "". UserError for one without a name or a compute
/// function. Thread-safe, as what follows.
Status registerOperator(const knapper_operator &given);
/// False when there is none.
bool unregisterOperator(std::string_view domain, std::string_view name);
/// Null when there is none. Of the runtime's own operators, libraries beside
/// this one have those that are large (libknapper_regex.so,
/// libknapper_numeric.so): each is loaded when its first one is looked for.
std::shared_ptr<const Operator> findOperator(std::string_view domain,
                                             std::string_view name);

/// Loads a shared object for as long as the process runs. `enter` calls what it
/// exports as `knapper_operators`; UserError when it exports none.
Status
loadOperators(const char *path,
              const std::function<Status(knapper_operators_function *)> &enter);

/// How a missing operator is registered: for hints.
std::string howToRegister(std::string_view domain, std::string_view name);

} // namespace knapper
