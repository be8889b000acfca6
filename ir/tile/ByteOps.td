// The operation of ByteOps.h.
#ifndef KNAPPER_IR_TILE_BYTEOPS
#define KNAPPER_IR_TILE_BYTEOPS

include "ir/tile/TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_AddByteProductsOp
    : Op<Tile_Dialect, "add_byte_products",
         [Pure, AllTypesMatch<["sum", "a", "b", "result"]>]> {
  let summary = "sum + the four products of bytes of each lane";
  let description = [{
    A lane of `a` is four bytes without sign, one of `b` four with sign, the
    first ones in the low bits. Sums wrap. Only CPUs have it. C1: elements are
    i32. C2: lanes are a multiple of four.
  }];
  let arguments = (ins VectorOfRankAndType<[1], [AnyInteger]>:$sum,
      VectorOfRankAndType<[1], [AnyInteger]>:$a,
      VectorOfRankAndType<[1], [AnyInteger]>:$b);
  let results = (outs VectorOfRankAndType<[1], [AnyInteger]>:$result);
  let assemblyFormat = "$sum `,` $a `,` $b attr-dict `:` type($sum)";
  let hasVerifier = 1;
}

#endif
