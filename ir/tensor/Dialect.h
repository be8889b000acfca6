//===- Dialect.h - The tensor dialect: ops, attributes, interfaces --------===//
#pragma once

#include "ir/tensor/Dim.h"
#include "ir/tensor/Indexing.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "ir/tensor/Dialect.h.inc"
#include "ir/tensor/Enums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/tensor/Attributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/tensor/Types.h.inc"
#include "ir/tensor/Interfaces.h.inc"

#include "ir/tensor/TensorType.h"

#define GET_OP_CLASSES
#include "ir/tensor/Ops.h.inc"
