#include "ir/tile/ByteOps.h"

using namespace mlir;

namespace knapper::tile {

LogicalResult AddByteProductsOp::verify() {
  if (!getType().getElementType().isInteger(32))
    return emitOpError("C1: elements are i32");
  if (getType().getNumElements() % 4)
    return emitOpError("C2: lanes are a multiple of four");
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/ByteOps.cpp.inc"
