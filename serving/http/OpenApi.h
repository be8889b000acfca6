// /openapi.json: what the server takes and gives, for programs.
#pragma once

#include <string>

namespace knapper::serving {

/// An OpenAPI 3.1 document. Fields of requests are those of the tables that
/// requests are checked by, without those that are refused.
std::string openApi(const std::string &version);

} // namespace knapper::serving
