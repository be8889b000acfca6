// What a JSON schema asks for that no grammar of ours enforces.
#pragma once

#include "serving/json/OrderedJson.h"

#include <optional>
#include <string>

namespace knapper::serving {

struct SchemaProblem {
  std::string place;   ///< in the schema: ".properties.name.not"; "": itself
  std::string message; ///< what is wrong there, without the place
  const char *code;    ///< invalid_schema or unsupported_schema
};

/// The first keyword that would not be enforced, or that is not what it must
/// be. Nothing: each text of the schema's grammar is valid by it.
std::optional<SchemaProblem> checkSchema(const OrderedJson &schema);

} // namespace knapper::serving
