// The JSON files of a model's folder.
#pragma once

#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>
#include <string>

namespace knapper::serving {

/// Of no kind (discarded) where it is no JSON. UserError for what is nested so
/// deeply that trees of it could not be copied, which takes a stack.
Expected<nlohmann::json> readJsonFile(const std::string &path);

} // namespace knapper::serving
