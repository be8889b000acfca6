// The tile dialect and its one type.
#ifndef KNAPPER_IR_TILE_TILEDIALECT
#define KNAPPER_IR_TILE_TILEDIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/OpBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::knapper::tile";
  let summary = "What one program instance of a kernel's grid does";
  let description = [{
    Adds to `arith`, `math`, `vector` (on values) and `scf` what they lack for
    kernels: a function with a one-dimensional grid, flat memory, masked access
    at ragged edges and the main loop of a matmul. See
    docs/stack/tile.md.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect"];
  let useDefaultTypePrinterParser = 1;
}

def Tile_BufferType : TypeDef<Tile_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "Typed flat memory without a shape";
  let description = [{
    Offsets into a buffer are `index` values counted in elements. An `i1`
    element takes one byte.
  }];
  let parameters = (ins "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $elementType `>`";
  let genVerifyDecl = 1;
  let builders = [TypeBuilderWithInferredContext<
      (ins "::mlir::Type":$elementType), [{
        return $_get(elementType.getContext(), elementType);
      }]>];
  let extraClassDeclaration = [{
    /// Bytes one element takes in memory.
    unsigned getElementBytes() const {
      unsigned bits = getElementType().getIntOrFloatBitWidth();
      return bits < 8 ? 1 : bits / 8;
    }
  }];
}

#endif // KNAPPER_IR_TILE_TILEDIALECT
