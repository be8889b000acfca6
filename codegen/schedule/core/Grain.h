//===- Grain.h - How many programs are worth a thread ---------------------===//
#pragma once

#include "ir/tensor/Dim.h"
#include <cstdint>

namespace knapper {

/// The least number of programs that are worth a thread: together they take
/// `least`, each takes `cost`, in any unit. The cost may depend on symbols: it
/// is known when the sizes are bound.
inline ts::Dim grainOf(int64_t least, ts::Dim cost) {
  ts::Dim one = cost.like(1);
  return (one * least).floorDiv(cost.max(one)).max(one);
}

} // namespace knapper
