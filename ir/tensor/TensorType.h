//===- TensorType.h - Tensor types with symbolic sizes --------------------===//
//
// The two directions between a tensor type and its sizes. A static tensor has
// no encoding; any symbolic dim makes it `tensor<?x.., #ts.dims<..>>`.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tensor/Dim.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace knapper::ts {

/// Sizes of a ranked tensor type or value.
llvm::SmallVector<Dim> dimsOf(mlir::Type type);
llvm::SmallVector<Dim> dimsOf(mlir::Value value);
/// Size of one dim.
Dim dimOf(mlir::Value value, unsigned index);
int64_t rankOf(mlir::Value value);
mlir::Type elementTypeOf(mlir::Value value);

/// A function's attribute: the 16-bit type that its f32 tensors may be stored
/// in, as `graph/quantize/ConvertFloat.h` says; a TypeAttr.
inline constexpr llvm::StringLiteral kStorageAttr = "ts.storage";

mlir::RankedTensorType tensorType(mlir::MLIRContext *context,
                                  llvm::ArrayRef<Dim> dims,
                                  mlir::Type elementType);
/// The type with another element type.
mlir::RankedTensorType withElement(mlir::Type type, mlir::Type elementType);

/// Number of elements.
Dim elementCount(mlir::Type type);
/// Whether elements are only moved and converted, never computed with: floats
/// of eight and four bits, integers of four and two.
bool isStorage(mlir::Type elementType);
/// Bytes of one element; i1 and storage types take one byte, strings 16.
int64_t elementBytes(mlir::Type elementType);
/// Bytes of the whole tensor.
Dim byteCount(mlir::Type type);

mlir::ArrayAttr dimArray(mlir::MLIRContext *context, llvm::ArrayRef<Dim> dims);
llvm::SmallVector<Dim> dimsOf(mlir::ArrayAttr dims);

/// "2x128xf32", "batchxseqx384xf32": for messages and reports.
std::string shapeText(mlir::Type type);

} // namespace knapper::ts
