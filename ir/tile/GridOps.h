// What programs of a grid do together, through global memory. Operations of the
// tile dialect that few files need.
#pragma once

#include "ir/tile/TileDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace knapper::tile {
/// Constraints C1 and C2 of tile.scan.
llvm::LogicalResult verifyScan(mlir::Operation *op,
                               mlir::vector::CombiningKind kind,
                               mlir::Type type);
} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/GridOps.h.inc"
