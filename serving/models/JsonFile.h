// The JSON files of a model's folder.
#pragma once

#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>
#include <string>

namespace knapper::serving {

/// UserError for what is no JSON, or nested so deeply that trees of it could
/// not be copied, which takes a stack.
Expected<nlohmann::json> readJsonFile(const std::string &path);

} // namespace knapper::serving
