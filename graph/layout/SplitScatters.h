//===- SplitScatters.h - Many updates of few elements, in parts -----------===//
//
//   scatter(x, i, u) that adds   becomes   x + the sum of `parts` scatters of
//   to a vector                            equal parts of i and u into zeros
//
// The same of products, maxima and minima, and of short rows. Updates of one
// vector are combined in order, which is one program, and so are those of rows
// that one program holds side by side; parts have one each. There are as many
// parts as the sizes allow, whatever the machine is, so results do not depend
// on its threads. Sums and products of floating-point numbers are formed in
// another order; sums begin at -0, which keeps the sign of every zero. Sizes
// are constants, and the updates have a divisor near what is wanted.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cstdint>

namespace mlir::func {
class FuncOp;
}

namespace knapper {

struct ScatterModel {
  int64_t updates = 1 << 16; ///< elements from which on they are split
  int64_t row = 31;          ///< elements, at most; of more, programs share
  int64_t each = 4;          ///< updates of a place in each part, at least
  int64_t parts = 16;        ///< at most
};

void splitScatters(mlir::func::FuncOp function, const ScatterModel &model = {});

} // namespace knapper
