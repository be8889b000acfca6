// The operations of BlockOps.h.
#ifndef KNAPPER_IR_TILE_BLOCKOPS
#define KNAPPER_IR_TILE_BLOCKOPS

include "ir/tile/TileDialect.td"
include "mlir/Dialect/Vector/IR/VectorAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_BlockOp<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;
def Tile_BlockVector : VectorOfRankAndType<[1], [AnyInteger, AnyFloat]>;
def Tile_BlockScalar : AnyTypeOf<[AnyInteger, AnyFloat]>;

def Tile_ScanOp : Tile_BlockOp<"scan", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "Block scan: the running combination of a tile's lanes";
  let description = [{
    Lane i is `init` (what changes nothing if absent) combined with the lanes up to i, without lane i if `exclusive`; with
    `reverse` from the last lane down to i. `total`: `init` combined with all lanes. Lanes meet in a fixed order, not in
    theirs: sums of floats are rounded accordingly. Only GPUs have it.
    C1: elements are f32, f64 or integers of 8 to 64 bits. C2: the kind is add, mul, or a maximum or minimum that keeps NaNs.
    C3: `total` and `init` are of the element type.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind, Tile_BlockVector:$tile,
      Optional<Tile_BlockScalar>:$init, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Tile_BlockVector:$result, Tile_BlockScalar:$total);
  let assemblyFormat = [{
    $kind `,` $tile (`init` $init^ `:` type($init))? attr-dict `:` type($tile) `,` type($total)
  }];
  let hasVerifier = 1;
}

def Tile_ScanRowsOp : Tile_BlockOp<"scan_rows", [Pure, AllTypesMatch<["tile", "result"]>]> {
  let summary = "The scan of each row of a tile";
  let description = [{
    The lanes are rows of `columns`, each scanned by itself as tile.scan does, by shuffles within a warp. Only GPUs have it.
    C1, C2 as of tile.scan. C3: columns is a power of two that divides the lanes.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind, Tile_BlockVector:$tile,
      I64Attr:$columns, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Tile_BlockVector:$result);
  let assemblyFormat = "$kind `,` $tile `columns` $columns attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

def Tile_ClusterScanOp : Tile_BlockOp<"cluster_scan", [AllTypesMatch<["value", "before"]>]> {
  let summary = "What the programs of a cluster that come before this one make together";
  let description = [{
    `before` combines the values of the cluster's programs with a smaller number (`reverse`: a larger one), in their order;
    of the first it is what changes nothing. All programs come to it, equally often. Only GPUs with clusters have it.
    Of tiles lane by lane. C1: the function has `tile.cluster`. C2: kinds and elements are those of tile.scan.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind,
      AnyTypeOf<[Tile_BlockScalar, Tile_BlockVector]>:$value, UnitAttr:$reverse);
  let results = (outs AnyTypeOf<[Tile_BlockScalar, Tile_BlockVector]>:$before);
  let assemblyFormat = "$kind `,` $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Tile_SharedOp : Tile_BlockOp<"shared"> {
  let summary = "A buffer in shared memory, the program's own";
  let description = [{
    It holds `count` elements, undefined at first. What one operation writes others see behind the next tile.barrier.
    Only GPUs have it. C1: count is positive. C2: it stands in the function's own block.
  }];
  let arguments = (ins I64Attr:$count);
  let results = (outs Tile_BufferType:$buffer);
  let assemblyFormat = "$count attr-dict `:` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tile_BarrierOp : Tile_BlockOp<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "Orders the accesses of a program to its buffers";
  let description = "What was written before it is read behind it, by whatever lane. Only GPUs need it and have it.";
  let assemblyFormat = "attr-dict";
}

def Tile_AppendOp : Tile_BlockOp<"append", [AttrSizedOperandSegments]> {
  let summary = "Compacts the lanes of a mask to the end of lists";
  let description = [{
    Each lane whose `mask` is true takes the next place of the lists, in any order: an atomic increment of element 0 of `count`.
    Its values are written there, if the place is below `limit`; the count goes on. Only GPUs have it.
    C1: a buffer of the same element a value. C2: the counter is i32. C3: all lists and the counter are tile.shared.
  }];
  let arguments = (ins Variadic<Tile_BlockVector>:$values, VectorOfRankAndType<[1], [I1]>:$mask,
      Arg<Variadic<Tile_BufferType>, "", [MemWrite]>:$lists,
      Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$counter, I64Attr:$limit);
  let assemblyFormat = [{
    $values `mask` $mask `to` $lists `count` $counter `limit` $limit attr-dict
    `:` type($mask) `,` type($values) `to` qualified(type($lists)) `count` qualified(type($counter))
  }];
  let hasVerifier = 1;
}

def Tile_RankOp : Tile_BlockOp<"rank", [SameVariadicOperandSize]> {
  let summary = "Sorts the words of lists, the largest first";
  let description = [{
    Word i of the lists `from` (i below `count`) goes to the place of `to` that is the number of larger words. Words are
    compared without sign, by the first list, then by the next; no two are equal. Only GPUs have it.
    C1: as many lists of the same integers on both sides. C2: all are tile.shared.
  }];
  let arguments = (ins Arg<Variadic<Tile_BufferType>, "", [MemRead]>:$from,
      Arg<Variadic<Tile_BufferType>, "", [MemWrite]>:$to, Index:$count);
  let assemblyFormat = [{
    $from `to` $to `count` $count attr-dict `:` qualified(type($from)) `to` qualified(type($to))
  }];
  let hasVerifier = 1;
}

def Tile_ClusterCollectOp
    : Tile_BlockOp<"cluster_collect", [SameVariadicOperandSize]> {
  let summary = "The lists of a cluster's programs, one behind the other";
  let description = [{
    Every program gets the first `count` words of each program's lists `from`, in the programs' order, up to `limit` words;
    `total` is the number of all. It waits for the others before it and for its own threads after it; `from` is not
    written again. All programs come to it, once. Only GPUs with clusters have it.
    C1, C2 as of tile.rank. C3: the function has `tile.cluster`.
  }];
  let arguments = (ins Arg<Variadic<Tile_BufferType>, "", [MemRead]>:$from,
      Arg<Variadic<Tile_BufferType>, "", [MemWrite]>:$to, Index:$count,
      I64Attr:$limit);
  let results = (outs Index:$total);
  let assemblyFormat = [{
    $from `to` $to `count` $count `limit` $limit attr-dict `:` qualified(type($from)) `to` qualified(type($to))
  }];
  let hasVerifier = 1;
}

#endif // KNAPPER_IR_TILE_BLOCKOPS
