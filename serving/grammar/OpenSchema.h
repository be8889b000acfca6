// A schema that says itself what JSON Schema means where it says nothing.
#pragma once

#include "serving/json/OrderedJson.h"

namespace knapper::serving {

/// The same schema with what objects and arrays may hold besides what they
/// name written down: anything. For what reads schemas as closed.
OrderedJson openSchema(OrderedJson schema);

} // namespace knapper::serving
