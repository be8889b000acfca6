//===- HloComplex.h - Complex numbers as two planes -----------------------===//
//
// A tensor of complex numbers of the program is one of floats here, with a dim
// of two in front: the real parts, the imaginary parts. So control flow and
// calls carry it as any other. Ops take the planes apart and join them again;
// joins that nobody reads are left out.
//
// At the border of the program the two floats of an element lie side by side,
// as callers have them: there the dim of two is the last.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

struct HloComplex {
  mlir::Value re, im;
};

bool isHloComplex(mlir::Type type);
/// Whether an operand or a result is complex.
bool isHloComplex(mlir::Operation *op);

/// The program's own dims of an operand: not that of the planes.
llvm::SmallVector<int64_t> hloOwnShape(HloNode &n, size_t index);

HloComplex hloPlanes(HloNode &n, mlir::Value joined);
mlir::Value hloJoin(HloNode &n, HloComplex planes);

/// A scalar of the program at every place of `dims`; anything else as it is.
mlir::Value hloLifted(HloNode &n, mlir::Value value, mlir::Type type,
                      llvm::ArrayRef<ts::Dim> dims);

/// Its type then; `plain`: what it is as it is.
mlir::RankedTensorType hloLiftedType(HloNode &n, mlir::Type type,
                                     mlir::RankedTensorType plain,
                                     llvm::ArrayRef<ts::Dim> dims);

/// The type of a complex tensor at the border; null and why not.
mlir::RankedTensorType hloBorderType(mlir::Type type, std::string &problem);
/// From the border's form and back. Null where an op could not be made.
mlir::Value hloFromBorder(HloNode &n, mlir::Value value);
mlir::Value hloToBorder(HloNode &n, mlir::Value joined);

/// An op of complex numbers; `row`: what it is of real ones, or null.
mlir::LogicalResult importHloComplex(HloNode &n, const HloRow *row);

} // namespace knapper
