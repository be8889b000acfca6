//===- Indexing.h - Where an op reads its operands ------------------------===//
//
// An op with the indexing interface is a loop nest over `loops`. The first
// loops are the dims of result 0, in order; reduction loops follow. In every
// iteration operand k is read at one element, given by `maps[k]`:
//
//   index into operand dim d = sum of coefficient * loop + offset
//
// Examples
//   broadcast  tensor<N> to tensor<M x N>   loops (M, N)      map (d0 = l1)
//   transpose  perm [1, 0]                  loops (N, M)      map (d0 = l1, d1
//   = l0) slice      start s, step 2              loops (n)         map (d0 =
//   2*l0 + s) reduce     add over dim 1 of M x N      loops (M | N)     map (d0
//   = l0, d1 = l1) dot        M x K times K x N            loops (M, N | K)
//   maps (l0, l2), (l2, l1) conv 1-D   x[C, W], w[F, C, 3], pad 1   loops (F, W
//   | C, 3)
//                                           maps (l2, l1 + l3 - 1) bounded,
//                                           (l0, l2, l3)
//   gather     axis 0 of x[V, D] by i[S]    loops (S, D)      maps
//   (data-dependent, l1), (l0) reshape                                 map is
//   linear: the operand is read at the
//                                           iteration's row-major position
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dim.h"
#include "llvm/ADT/SmallVector.h"

namespace knapper::ts {

/// One operand dim's index as an affine function of the loops.
struct IndexExpr {
  struct Term {
    unsigned loop;
    int64_t coefficient;
  };
  llvm::SmallVector<Term, 2> terms;
  Dim offset; ///< never null
  /// The index comes from another operand's value (gather); terms are empty.
  bool dataDependent = false;

  static IndexExpr ofLoop(mlir::MLIRContext *context, unsigned loop) {
    return {{{loop, 1}}, Dim::constant(context, 0), false};
  }
  static IndexExpr constant(Dim offset) { return {{}, offset, false}; }
  /// The loop when the index is exactly that loop.
  std::optional<unsigned> asLoop() const {
    if (dataDependent || terms.size() != 1 || terms[0].coefficient != 1 ||
        !offset.isConstant(0))
      return std::nullopt;
    return terms[0].loop;
  }
};

struct IndexMap {
  enum Kind {
    affine, ///< `dims` says where
    linear, ///< reshape: the operand is read at the same row-major position
    opaque, ///< no closed form (sort, scan along a dim, attention)
  };
  Kind kind = affine;
  llvm::SmallVector<IndexExpr, 4> dims;
  /// Indices may lie outside; such elements read as the op's padding.
  bool bounded = false;
  /// Only part of the iterations read this operand (concat).
  bool partial = false;
};

struct Indexing {
  llvm::SmallVector<Dim, 6> loops;
  unsigned parallelLoops = 0;          ///< the rest are reduced
  llvm::SmallVector<IndexMap, 3> maps; ///< one an operand

  Dim iterations(mlir::MLIRContext *context) const {
    return product(context, loops);
  }
};

} // namespace knapper::ts
