// Assembling messages.
#pragma once

#include "runtime/base/TextPart.h"

namespace knapper {

/// cat("input '", name, "' has rank ", 3): strings as they are, integers in
/// decimal. Messages are many: a call only lists its parts.
template <typename... Parts> std::string cat(const Parts &...parts) {
  const TextPart list[] = {TextPart::of(parts)...};
  return joined(list, sizeof...(Parts));
}

} // namespace knapper
