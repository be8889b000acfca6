// The operations of PackedOps.h.
#ifndef KNAPPER_IR_TILE_PACKEDOPS
#define KNAPPER_IR_TILE_PACKEDOPS

include "ir/tile/TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_PackedMatmulOp : Op<Tile_Dialect, "packed_matmul"> {
  let summary = "Every block of a matmul with packed integers, ended by a region";
  let description = [{
    A whole GPU kernel: what ts.packed_dot says, of dense tensors: A of m rows, integers and scales of n columns. Each
    sum is handed to the region with its row and column: one thread's, which stores it. The depth and how it is done
    are entries of `shape` (ir/config/PackedMatmulGpuConfig.h).

    C1: the region takes an f32, row and column. C2: `shape` has all entries, and they go together.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$a, Arg<Tile_BufferType, "", [MemRead]>:$weight,
      Arg<Tile_BufferType, "", [MemRead]>:$scale, Index:$m, Index:$n, DictionaryAttr:$shape);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `A` `(` $a `)` `integers` `(` $weight `)` `scale` `(` $scale `)` `size` $m `,` $n `shape` $shape attr-dict
    `:` qualified(type($a)) `,` qualified(type($weight)) `,` qualified(type($scale)) $body
  }];
  let hasVerifier = 1;
}

def Tile_StoredOp
    : Op<Tile_Dialect, "stored", [Pure, Terminator, ParentOneOf<["PackedMatmulOp"]>]> {
  let summary = "Ends the region of a matmul with packed integers";
  let assemblyFormat = "attr-dict";
}

#endif // KNAPPER_IR_TILE_PACKEDOPS
