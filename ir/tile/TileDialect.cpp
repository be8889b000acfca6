#include "ir/tile/BlockOps.h"
#include "ir/tile/ByteOps.h"
#include "ir/tile/GridOps.h"
#include "ir/tile/PackedOps.h"
#include "ir/tile/PagedOps.h"
#include "ir/tile/RecurrenceOps.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace knapper::tile;

#include "ir/tile/TileDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.cpp.inc"

void TileDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/tile/TileTypes.cpp.inc"
      >();
  registerTileDialectOperations(this);
  addOperations<
#define GET_OP_LIST
#include "ir/tile/ByteOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/BlockOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/GridOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/PagedOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/PackedOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/tile/RecurrenceOps.cpp.inc"
      >();
}

LogicalResult
BufferType::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   Type element) {
  if (element.isF32() || element.isF16() || element.isBF16() || element.isF64())
    return success();
  for (unsigned width : {1, 8, 16, 32, 64})
    if (element.isSignlessInteger(width))
      return success();
  return emitError() << "a buffer holds f32, f16, bf16, f64, i1, i8, i16, i32 "
                        "or i64, not "
                     << element;
}
