//===- SplitScatters.h - Many updates of few elements, in parts -----------===//
//
//   scatter(x, i, u) that adds   becomes   x + the sum of `parts` scatters of
//   to a vector                            equal parts of i and u into zeros
//
// The same holds for products, maxima and minima, and for short rows.
//
// Why: the updates of one vector are combined in order, by one program. So are
// the updates of rows that one program holds side by side. After the split each
// part has a program.
//
// The number of parts follows from the sizes alone, not from the machine, so
// results do not depend on the number of threads. Floating-point sums and
// products are formed in another order; sums begin at -0, which keeps the sign of
// every zero. A scatter is split if its sizes are
// constants and the number of updates has a divisor near the wanted number of
// parts.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct ScatterModel {
  int64_t updates = 1 << 16; ///< elements of u; fewer are not split
  int64_t row = 31;          ///< elements of a row; programs share longer ones
  int64_t each = 4;          ///< updates of one place in each part, at least
  int64_t parts = 16;        ///< parts, at most
};

void splitScatters(mlir::func::FuncOp function, const ScatterModel &model = {});

} // namespace knapper
