// Text of errno for messages.
#pragma once

#include <cstring>
#include <string>

namespace knapper {

inline std::string systemErrorText(int number) {
  char buffer[128];
  // The GNU variant returns the text, which need not be in the buffer.
  return strerror_r(number, buffer, sizeof buffer);
}

} // namespace knapper
