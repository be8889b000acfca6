// Errors as OpenAI's API has them.
#pragma once

#include "runtime/base/Error.h"

#include <string>

namespace knapper::serving {

struct ApiError {
  int status = 400;
  std::string message;    ///< what, where, what is allowed
  std::string param;      ///< the field's place in the JSON; empty: none
  std::string code;       ///< a word for programs; empty: none
  int retryAfter = 0;     ///< seconds, of 429 and 503
  std::string allow = {}; ///< methods, of 405

  std::string type() const;
  /// {"error": {...}}.
  std::string json() const;
  /// Of a request that the engine or a library refused. 429 for a full queue,
  /// 503 while it drains or is built again and for a deadline, else 400, 503 or
  /// 500 by the kind.
  static ApiError from(const Error &error, const std::string &param = {});
};

} // namespace knapper::serving
