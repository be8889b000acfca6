// The operation of PagedOps.h.
#ifndef KNAPPER_IR_TILE_PAGEDOPS
#define KNAPPER_IR_TILE_PAGEDOPS

include "ir/tile/TileDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_PagedAttentionOp : Op<Tile_Dialect, "paged_attention"> {
  let summary = "Every program of an attention whose keys lie in blocks of a pool";
  let description = [{
    A whole GPU kernel: what ts.paged_attention says, of dense tensors. `sizes` are tokens, sequences, blocks of a
    sequence and blocks of the pool; all other sizes are entries of `shape` (ir/config/AttentionGpuConfig.h), which says
    how, too. Lengths and blocks are read when it runs. `softcap` 0: none; `window` 0: none.

    C1: four sizes. C2: `shape` has all entries.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$q, Arg<Tile_BufferType, "", [MemRead]>:$k,
      Arg<Tile_BufferType, "", [MemRead]>:$v, Arg<Tile_BufferType, "", [MemRead]>:$table,
      Arg<Tile_BufferType, "", [MemRead]>:$sequence, Arg<Tile_BufferType, "", [MemRead]>:$position,
      Arg<Tile_BufferType, "", [MemWrite]>:$o, Variadic<Index>:$sizes, F32Attr:$scale, F32Attr:$softcap,
      I64Attr:$window, DictionaryAttr:$shape);
  let assemblyFormat = [{
    `Q` `(` $q `)` `K` `(` $k `)` `V` `(` $v `)` `table` $table `sequence` $sequence `position` $position `to` $o
    `size` $sizes `scale` $scale `softcap` $softcap `window` $window `shape` $shape attr-dict
    `:` qualified(type($q)) `,` qualified(type($k)) `,` qualified(type($v)) `,` qualified(type($table)) `,`
    qualified(type($sequence)) `,` qualified(type($position)) `,` qualified(type($o))
  }];
  let hasVerifier = 1;
}

#endif // KNAPPER_IR_TILE_PAGEDOPS
