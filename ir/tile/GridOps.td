// The operations of GridOps.h.
#ifndef KNAPPER_IR_TILE_GRIDOPS
#define KNAPPER_IR_TILE_GRIDOPS

include "ir/tile/TileDialect.td"
include "mlir/Dialect/Vector/IR/VectorAttributes.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_GridOp<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;
def Tile_GridValue : AnyTypeOf<[AnyInteger, AnyFloat, VectorOfRankAndType<[1], [AnyInteger, AnyFloat]>]>;

def Tile_AtomicOp : Tile_GridOp<"atomic"> {
  let summary = "Combines consecutive elements with those of memory, whoever else does";
  let description = [{
    Element i of `buffer` from `offset` on becomes what it and lane i make together, in one step that nobody else's atomic
    divides: programs may meet in an element, and their order is any. Sums of f32 in memory take denormals for zeros.
    Only GPUs have it. C1: the kind is one of the element's. C2: elements are those of the buffer.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind, Tile_GridValue:$value,
      Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$buffer, Index:$offset);
  let assemblyFormat = [{
    $kind `,` $value `,` $buffer `[` $offset `]` attr-dict `:` type($value) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Tile_TicketOp : Tile_GridOp<"ticket"> {
  let summary = "The program's place among those of the grid that have begun";
  let description = [{
    Counts `state` at `offset` up and returns what was there: programs with smaller numbers have begun, and so will end without
    this one. The word is zero when the kernel starts. Executed once. Only GPUs have it. C1: words are i64.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$state, Index:$offset);
  let results = (outs Index:$number);
  let assemblyFormat = "$state `[` $offset `]` attr-dict `:` qualified(type($state))";
  let hasVerifier = 1;
}

def Tile_LookBackOp : Tile_GridOp<"look_back", [AllTypesMatch<["value", "before"]>]> {
  let summary = "What programs with smaller numbers of a line make together";
  let description = [{
    Program `number` of the line's `count` has made `value`; `before` combines those of all smaller numbers, in an order that
    depends on numbers alone. Programs before it must have begun (tile.ticket). `state` has, from `offset` on, for each program
    of the line and then for each 128 of them so many words as a value has 32 bits, all zero when the kernel starts (a decoupled
    look-back, Merrill and Garland 2016, which waits for fixed words instead of any: sums have the same bits in every run).
    Executed once. Only GPUs have it. With a tile, lane i (i < `lanes`) belongs to line i: the words of line i + 1
    follow those of line i in `state`. The other lanes of `before` are unspecified.
    C1: words are i64. C2: kinds and elements are those of tile.scan. C3: `lanes` is given for tiles alone, which have as many.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind, Tile_GridValue:$value,
      Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$state, Index:$offset,
      Index:$number, Index:$count, OptionalAttr<I64Attr>:$lanes);
  let results = (outs Tile_GridValue:$before);
  let assemblyFormat = [{
    $kind `,` $value `state` $state `[` $offset `]` `number` $number `of` $count (`lanes` $lanes^)? attr-dict
    `:` type($value) `,` qualified(type($state))
  }];
  let hasVerifier = 1;
  // Programs whose values are taken together.
  let extraClassDeclaration = "static constexpr int64_t kGroup = 128;";
}

def Tile_RadixPassOp : Tile_GridOp<"radix_pass"> {
  let summary = "Every program of a stable sort by eight bits";
  let description = [{
    `to` gets the words of each of `lines` lines of `length` from `from` in the order of the eight bits from `bit` on, equal
    ones in their own order. The program's `number` is its ticket; a line has ceil(length / (threads * items)) tiles. The
    first lines * tiles programs count the values in a tile each and look back at the tiles of its line before; as many
    again place a tile's words. `state` has, from `offset` on, 256 words of 32 bits for each tile, all zero when the kernel
    starts: what a value's count is, 2^30 times 1 (of the tile alone) or 2 (with those before it) above it. Only GPUs have it.
    C1: words are i64. C2: length is below 2^30, bit is from 0 to 56. C3: items are positive.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$from,
      Arg<Tile_BufferType, "", [MemWrite]>:$to,
      Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$state, Index:$offset,
      Index:$number, Index:$lines, Index:$length, I64Attr:$bit, I64Attr:$items);
  let assemblyFormat = [{
    $from `to` $to `state` $state `[` $offset `]` `number` $number `lines` $lines `of` $length `bit` $bit `items` $items
    attr-dict `:` qualified(type($from)) `,` qualified(type($to)) `,` qualified(type($state))
  }];
  let hasVerifier = 1;
  // Values of eight bits, which are as many as a program has threads.
  let extraClassDeclaration = "static constexpr int64_t kValues = 256;";
}

#endif // KNAPPER_IR_TILE_GRIDOPS
