//===- ElidedTypes.h - Types that the syntax of tile ops leaves out -------===//
//
// The `custom<...>` directives of TileOps.td, for the files that hold the
// generated parsers and printers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/tile/TileDialect.h"

namespace knapper::tile {

using OptionalOperand = std::optional<mlir::OpAsmParser::UnresolvedOperand>;

inline mlir::ParseResult parseElementType(mlir::OpAsmParser &,
                                          const OptionalOperand &operand,
                                          mlir::Type buffer, mlir::Type &type) {
  if (operand)
    type = llvm::cast<BufferType>(buffer).getElementType();
  return mlir::success();
}
inline void printElementType(mlir::OpAsmPrinter &, mlir::Operation *,
                             mlir::Value, mlir::Type, mlir::Type) {}

inline mlir::ParseResult parseSameType(mlir::OpAsmParser &,
                                       const OptionalOperand &operand,
                                       mlir::Type other, mlir::Type &type) {
  if (operand)
    type = other;
  return mlir::success();
}
inline void printSameType(mlir::OpAsmPrinter &, mlir::Operation *, mlir::Value,
                          mlir::Type, mlir::Type) {}

inline mlir::ParseResult parseOffsetsType(mlir::OpAsmParser &parser,
                                          mlir::Type tile, mlir::Type &type) {
  auto vector = llvm::dyn_cast<mlir::VectorType>(tile);
  if (!vector)
    return parser.emitError(parser.getNameLoc(), "expected a vector type");
  type = mlir::VectorType::get(vector.getShape(),
                               mlir::IndexType::get(parser.getContext()));
  return mlir::success();
}
inline void printOffsetsType(mlir::OpAsmPrinter &, mlir::Operation *,
                             mlir::Type, mlir::Type) {}

inline mlir::ParseResult parseMaskType(mlir::OpAsmParser &parser,
                                       const OptionalOperand &operand,
                                       mlir::Type tile, mlir::Type &type) {
  if (operand)
    type =
        mlir::VectorType::get(llvm::cast<mlir::VectorType>(tile).getShape(),
                              mlir::IntegerType::get(parser.getContext(), 1));
  return mlir::success();
}
inline void printMaskType(mlir::OpAsmPrinter &, mlir::Operation *, mlir::Value,
                          mlir::Type, mlir::Type) {}

} // namespace knapper::tile
