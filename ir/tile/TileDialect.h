// The tile dialect: type `!tile.buffer<T>` and the operations of TileOps.td.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/tile/TileDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "ir/tile/TileTypes.h.inc"

#define GET_OP_CLASSES
#include "ir/tile/TileOps.h.inc"
