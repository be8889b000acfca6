// A schema that says itself what JSON Schema means where it says nothing.
#pragma once

#include <nlohmann/json.hpp>

namespace knapper::serving {

/// The same schema with what objects and arrays may hold besides what they
/// name written down: anything. For what reads schemas as closed.
nlohmann::ordered_json openSchema(nlohmann::ordered_json schema);

} // namespace knapper::serving
