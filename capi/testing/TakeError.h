// Errors of the C API as tests compare them.
#pragma once

#include "knapper/knapper.h"

#include <string>

namespace knapper::testing {

/// The text of an error, which is released; "no error" for success.
inline std::string take(knapper_error *error) {
  if (!error)
    return "no error";
  std::string text = knapper_error_get_message(error);
  knapper_error_release(error);
  return text;
}

} // namespace knapper::testing
