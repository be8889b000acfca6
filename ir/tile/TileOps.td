// The operations of the tile dialect. docs/stack/tile.md explains them.
#ifndef KNAPPER_IR_TILE_TILEOPS
#define KNAPPER_IR_TILE_TILEOPS

include "ir/tile/TileDialect.td"
include "mlir/Dialect/Arith/IR/ArithBase.td"
include "mlir/Dialect/Arith/IR/ArithOpsInterfaces.td"
include "mlir/Dialect/Vector/IR/VectorAttributes.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Tile_Op<string mnemonic, list<Trait> traits = []>
    : Op<Tile_Dialect, mnemonic, traits>;

// A scalar or a vector of rank 1.
def Tile_Value : AnyTypeOf<[AnyInteger, AnyFloat, VectorOfRankAndType<[1], [AnyInteger, AnyFloat]>],
                           "scalar or vector of rank 1">;
def Tile_Vector : VectorOfRankAndType<[1], [AnyInteger, AnyFloat]>;
def Tile_Offsets : VectorOfRankAndType<[1], [Index]>;
def Tile_Mask : VectorOfRankAndType<[1], [I1]>;

class Tile_ElementMatches<string buffer, string value>
    : PredOpTrait<"element type of '" # value # "' must be that of '" # buffer # "'",
                  CPred<"::mlir::getElementTypeOrSelf($" # value # ".getType()) == "
                        "::llvm::cast<::knapper::tile::BufferType>($" # buffer
                        # ".getType()).getElementType()">>;

//===-- Function and grid -------------------------------------------------===//

def Tile_FuncOp : Tile_Op<"func", [FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "A kernel: what one program of its grid does";
  let description = [{
    Arguments are buffers (the kernel's inputs, then its outputs) and then one
    `index` a kernel symbol. There are no results. Buffers that are written
    alias no other buffer, unless one of the two arguments carries
    `tile.may_alias = N`, N the other: they may be the very same memory.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region AnyRegion:$body);
  let skipDefaultBuilders = 1;
  let builders = [
    // Makes the function with its entry block: one buffer argument an element
    // type, then `symbols` arguments of type index.
    OpBuilder<(ins "::llvm::StringRef":$name,
                   "::llvm::ArrayRef<::mlir::Type>":$bufferElements,
                   "unsigned":$symbols)>
  ];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// FunctionOpInterface.
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }

    unsigned getNumBuffers();
    unsigned getNumSymbols() { return getArgumentTypes().size() - getNumBuffers(); }
    ::mlir::BlockArgument getBuffer(unsigned i) { return getBody().getArgument(i); }
    ::mlir::BlockArgument getKernelSymbol(unsigned i) {
      return getBody().getArgument(getNumBuffers() + i);
    }
    /// Declares that two buffers may be the very same memory.
    void setMayAlias(unsigned buffer, unsigned other);
    std::optional<unsigned> getMayAlias(unsigned buffer);
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, HasParent<"FuncOp">, Terminator]> {
  let summary = "Ends the program";
  let assemblyFormat = "attr-dict";
}

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "The program's number in the kernel's one-dimensional grid";
  let results = (outs Index:$id);
  let assemblyFormat = "attr-dict";
  let builders = [OpBuilder<(ins), [{
    $_state.addTypes($_builder.getIndexType());
  }]>];
}

def Tile_CombineOp : Tile_Op<"combine", [AllTypesMatch<["tile", "result"]>]> {
  let summary = "What the tiles of a cluster's programs make together";
  let description = [{
    Programs of a function with `tile.cluster = N` run in clusters of N
    neighbours, the first one's number a multiple of N; all of them come to this
    operation, equally often, and all get the result, lane by lane, in the
    programs' order or another fixed one. It waits for the others. Only GPUs
    with clusters have it. C1: the function has `tile.cluster`. C2: elements
    have 32 bits or more, or are integers of 8 or 16.
  }];
  let arguments = (ins Vector_CombiningKindAttr:$kind, Tile_Vector:$tile,
      DefaultValuedAttr<Arith_FastMathAttr,
                        "::mlir::arith::FastMathFlags::none">:$fastmath);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$kind `,` $tile (`fastmath` `` $fastmath^)? attr-dict `:` type($tile)";
  let hasVerifier = 1;
}

//===-- Memory ------------------------------------------------------------===//

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments,
    Tile_ElementMatches<"buffer", "result">]> {
  let summary = "Reads consecutive elements from an offset";
  let description = [{
    With `valid` only the first `valid` lanes are read; the others are `pad`
    (zero if absent) and their memory is not touched. `valid` may be any value:
    at most 0 reads nothing, at least the width reads all. A scalar result reads
    one element and takes no `valid`. `alignment` is in bytes, the element size
    if absent.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer, Index:$offset,
                       Optional<Index>:$valid, Optional<AnyType>:$pad,
                       OptionalAttr<I64Attr>:$alignment);
  let results = (outs Tile_Value:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` (`valid` $valid^)? (`pad` $pad^)? attr-dict
    `:` qualified(type($buffer)) `->` type($result)
    custom<ElementType>(ref($pad), ref(type($buffer)), type($pad))
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$buffer,
                                 "::mlir::Value":$offset,
                                 CArg<"::mlir::Value", "{}">:$valid,
                                 CArg<"::mlir::Value", "{}">:$pad,
                                 CArg<"int64_t", "0">:$alignment), [{
    build($_builder, $_state, result, buffer, offset, valid, pad,
          alignment ? $_builder.getI64IntegerAttr(alignment) : ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
}

def Tile_LoadStridedOp : Tile_Op<"load_strided", [AttrSizedOperandSegments,
    Tile_ElementMatches<"buffer", "result">]> {
  let summary = "Reads elements at offset, offset + stride, ...";
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer, Index:$offset,
                       Index:$stride, Optional<Index>:$valid, Optional<AnyType>:$pad);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `,` $stride `]` (`valid` $valid^)? (`pad` $pad^)? attr-dict
    `:` qualified(type($buffer)) `->` type($result)
    custom<ElementType>(ref($pad), ref(type($buffer)), type($pad))
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$buffer,
                                 "::mlir::Value":$offset, "::mlir::Value":$stride), [{
    build($_builder, $_state, result, buffer, offset, stride,
          ::mlir::Value(), ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [AttrSizedOperandSegments,
    Tile_ElementMatches<"buffer", "result">]> {
  let summary = "Reads one element a lane, each at its own offset";
  let description = [{
    Lanes at or past `valid`, and lanes whose `mask` is false, read `pad` (zero
    if absent); their offsets may be anything.

    With `run`, the lanes of each aligned group of so many read neighbours: lane
    l the element at offsets[l] + l % run. A group has one offset, a multiple of
    `run`, and one value of `mask`, and `valid` is a multiple of `run`.
    C1: run is a power of two that divides the lanes.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer, Tile_Offsets:$offsets,
                       Optional<Index>:$valid, Optional<Tile_Mask>:$mask,
                       Optional<AnyType>:$pad, OptionalAttr<I64Attr>:$run);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = [{
    $buffer `[` $offsets `]` (`valid` $valid^)? (`mask` $mask^)? (`pad` $pad^)? attr-dict
    `:` qualified(type($buffer)) `->` type($result)
    custom<OffsetsType>(ref(type($result)), type($offsets))
    custom<MaskType>(ref($mask), ref(type($result)), type($mask))
    custom<ElementType>(ref($pad), ref(type($buffer)), type($pad))
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$buffer,
                                 "::mlir::Value":$offsets), [{
    build($_builder, $_state, result, buffer, offsets, ::mlir::Value(),
          ::mlir::Value(), ::mlir::Value(), ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
}

def Tile_LoadRowsOp
    : Tile_Op<"load_rows", [Tile_ElementMatches<"buffer", "result">]> {
  let summary = "Reads a block of rows";
  let description = [{
    Lane r * columns + c is the element at offset + r * stride + c. Only the first
    `rows` rows and `valid` columns are read; the other lanes are unspecified and
    their memory is not touched.
    C1: columns is a power of two that divides the lanes.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$buffer,
      Index:$offset, Index:$stride, Index:$rows, Index:$valid,
      I64Attr:$columns);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = [{
    $buffer `[` $offset `]` `stride` $stride `rows` $rows `valid` $valid `columns` $columns attr-dict
    `:` qualified(type($buffer)) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreRowsOp
    : Tile_Op<"store_rows", [Tile_ElementMatches<"buffer", "value">]> {
  let summary = "Writes a block of rows";
  let description = "As tile.load_rows reads one. Only GPUs have it. C1: "
                    "columns is a power of two that divides the lanes.";
  let arguments = (ins Tile_Vector:$value,
      Arg<Tile_BufferType, "", [MemWrite]>:$buffer, Index:$offset,
      Index:$stride, Index:$rows, Index:$valid, I64Attr:$columns);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` `stride` $stride `rows` $rows `valid` $valid `columns` $columns attr-dict
    `:` type($value) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Tile_TransposeOp
    : Tile_Op<"transpose", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "Transposes a block of rows";
  let description = [{
    The lanes are rows of `columns`; lane c * (lanes / columns) + r of the result
    is lane r * columns + c of the input. GPUs go through shared memory and take
    powers of two only. C1: columns divides the lanes.
  }];
  let arguments = (ins Tile_Vector:$input, I64Attr:$columns);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$input `columns` $columns attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_Op<"store", [Tile_ElementMatches<"buffer", "value">]> {
  let summary = "Writes consecutive elements from an offset";
  let description = [{
    With `valid` only the first `valid` lanes are written. `nontemporal` asks for
    a store that bypasses the caches (honoured where the address is aligned to
    it). `alignment` is in bytes, the element size if absent.
  }];
  let arguments = (ins Tile_Value:$value, Arg<Tile_BufferType, "", [MemWrite]>:$buffer,
                       Index:$offset, Optional<Index>:$valid, UnitAttr:$nontemporal,
                       OptionalAttr<I64Attr>:$alignment);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offset `]` (`valid` $valid^)? attr-dict
    `:` type($value) `,` qualified(type($buffer))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$buffer,
                                 "::mlir::Value":$offset,
                                 CArg<"::mlir::Value", "{}">:$valid,
                                 CArg<"int64_t", "0">:$alignment,
                                 CArg<"bool", "false">:$nontemporal), [{
    build($_builder, $_state, value, buffer, offset, valid,
          nontemporal ? $_builder.getUnitAttr() : ::mlir::UnitAttr(),
          alignment ? $_builder.getI64IntegerAttr(alignment) : ::mlir::IntegerAttr());
  }]>];
  let hasVerifier = 1;
}

def Tile_ScatterOp : Tile_Op<"scatter", [AttrSizedOperandSegments,
    Tile_ElementMatches<"buffer", "value">]> {
  let summary = "Writes one element a lane, each at its own offset";
  let description = [{
    Lanes at or past `valid`, and lanes whose `mask` is false, write nothing. Of
    lanes with equal offsets the last one stays.
  }];
  let arguments = (ins Tile_Vector:$value, Arg<Tile_BufferType, "", [MemWrite]>:$buffer,
                       Tile_Offsets:$offsets, Optional<Index>:$valid,
                       Optional<Tile_Mask>:$mask);
  let assemblyFormat = [{
    $value `,` $buffer `[` $offsets `]` (`valid` $valid^)? (`mask` $mask^)? attr-dict
    `:` type($value) `,` qualified(type($buffer))
    custom<OffsetsType>(ref(type($value)), type($offsets))
    custom<MaskType>(ref($mask), ref(type($value)), type($mask))
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::mlir::Value":$buffer,
                                 "::mlir::Value":$offsets), [{
    build($_builder, $_state, value, buffer, offsets, ::mlir::Value(), ::mlir::Value());
  }]>];
  let hasVerifier = 1;
}

def Tile_ScratchOp : Tile_Op<"scratch", [Pure]> {
  let summary = "A buffer at a byte offset of the worker's scratch memory";
  let description = [{
    Scratch is 64-byte aligned, private to the worker and undefined on entry of
    each program. The kernel's scratch size is the schedule's to state.
  }];
  let arguments = (ins Index:$bytes);
  let results = (outs Tile_BufferType:$buffer);
  let assemblyFormat = "`[` $bytes `]` attr-dict `:` qualified(type($buffer))";
}

def Tile_LaneGroupsOp : Tile_Op<"lane_groups", [Pure]> {
  let summary = "The number of each lane's aligned group: lane / size";
  let description = "C1: size is a power of two that divides the lanes.";
  let arguments = (ins I64Attr:$size);
  let results = (outs Tile_Offsets:$result);
  let assemblyFormat = "$size attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_PageOffsetOp : Tile_Op<"page_offset", [Pure]> {
  let summary = "The address of an element within its page of 4096 bytes";
  let arguments = (ins Tile_BufferType:$buffer, Index:$offset);
  let results = (outs Index:$result);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` qualified(type($buffer))";
}

def Tile_LookupOp : Tile_Op<"lookup", [Pure, AllTypesMatch<["index", "result"]>]> {
  let summary = "Words of a small constant table";
  let description = [{
    Lane i is table[index[i] mod n], n the number of words.
    C1: the table has a power of two of words. C2: indices are i32.
  }];
  let arguments = (ins Tile_Vector:$index, DenseI32ArrayAttr:$table);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$index `in` $table attr-dict `:` type($index)";
  let hasVerifier = 1;
}

def Tile_ScaleByPowerOp : Tile_Op<"scale_by_power", [Pure, AllTypesMatch<["value", "power", "result"]>]> {
  let summary = "value * 2^floor(power)";
  let description = [{
    Overflows to infinity, underflows through the denormal numbers to 0. A NaN
    among the values stays; the powers are not NaN. C1: elements are f32.
  }];
  let arguments = (ins Tile_Vector:$value, Tile_Vector:$power);
  let results = (outs Tile_Vector:$result);
  let assemblyFormat = "$value `,` $power attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Tile_Exp2Op : Tile_Op<"exp2", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "2^x by the device's own instruction";
  let description = [{
    Its relative error is at most 2^-22; infinities and NaN follow IEEE 754.
    Only GPUs have one. C1: elements are f32.
  }];
  let arguments = (ins AnyTypeOf<[F32, VectorOfAnyRankOf<[F32]>]>:$input);
  let results = (outs AnyTypeOf<[F32, VectorOfAnyRankOf<[F32]>]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Tile_PrefetchOp : Tile_Op<"prefetch"> {
  let summary = "Asks for the cache line of an element";
  let description = [{
    `locality` 3 keeps it in L1, 2 in L2, 1 in L3, 0 is non-temporal.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead, MemWrite]>:$buffer, Index:$offset,
                       ConfinedAttr<DefaultValuedAttr<I32Attr, "2">,
                                    [IntMinValue<0>, IntMaxValue<3>]>:$locality);
  let assemblyFormat = "$buffer `[` $offset `]` attr-dict `:` qualified(type($buffer))";
}

//===-- Matmul ------------------------------------------------------------===//

def Tile_MainloopOp : Tile_Op<"mainloop", [AttrSizedOperandSegments]> {
  let summary = "Accumulates a BM x BN block of a matmul";
  let description = [{
    acc[i][j] += sum over o < n, k < K of
      A[off + o*aouter + i*lda + k*ka] * B[boff + o*bouter + k*ldb + j]
    in that order, from `init` or zero. Operands may be f32, f16 or bf16 (widened
    on load) for an f32 accumulator, f64 for f64.

    For an i32 accumulator A holds bytes without sign, B bytes with sign, in groups
    of four: B[boff + o*bouter + (k/4)*ldb + 4*j + k%4], the last group whole, with
    zeros past K. K is a constant; BN is a multiple of 16; sums wrap.

    With `pairs` A and B are bf16, the accumulator is f32 and B comes in groups of
    two: B[boff + o*bouter + (k/2)*ldb + 2*j + k%2], the last group whole, a zero
    past K. BN is a multiple of 16. A target may take a pair in one instruction,
    which rounds its two additions in its own way and takes denormals for zeros.

    With `scale` B holds integers with sign for an f32 accumulator, and what is multiplied is
    (B - zero[soff + o*sstep + j]) * scale[soff + o*sstep + j], each operation rounded to f32, zero 0 when absent. They are
    bytes, or (`nibbles`) two a byte, the row of even k in the low four bits: B[boff + o*bouter + (k/2)*ldb + j], the last
    byte whole; then K is a constant.

    `rows`: rows at or past it
    are computed from some valid row instead of their own (their results are to be
    dropped). `prefetch %p[%off] step %s`: touches one cache line of `p`, moving
    by `s` elements, each four steps of k (of bytes: each 16, of pairs: each 8).
    `b_alignment` is in bytes, for each row of B.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$a, Index:$aOffset,
      Index:$lda, Index:$ka, Arg<Tile_BufferType, "", [MemRead]>:$b,
      Index:$bOffset, Index:$ldb, Index:$k, Optional<Index>:$rows,
      Optional<Index>:$outer, Optional<Index>:$aOuter, Optional<Index>:$bOuter,
      Optional<VectorOfRankAndType<[2], [AnyFloat, I32]>>:$init,
      Optional<Tile_BufferType>:$prefetch, Optional<Index>:$prefetchOffset,
      Optional<Index>:$prefetchStep, Optional<Tile_BufferType>:$scale,
      Optional<Index>:$scaleOffset, Optional<Index>:$scaleStep,
      Optional<Tile_BufferType>:$zero, OptionalAttr<I64Attr>:$b_alignment,
      UnitAttr:$pairs, UnitAttr:$nibbles);
  let results = (outs VectorOfRankAndType<[2], [AnyFloat, I32]>:$acc);
  let assemblyFormat = [{
    `A` `(` $a `[` $aOffset `]` `,` `row` $lda `,` `k` $ka (`,` `rows` $rows^)? `)`
    `B` `(` $b `[` $bOffset `]` `,` `k` $ldb `)` `over` $k
    (`outer` $outer^ `(` $aOuter `,` $bOuter `)`)?
    (`init` $init^)?
    (`prefetch` $prefetch^ `[` $prefetchOffset `]` `step` $prefetchStep)?
    (`scale` $scale^ `:` qualified(type($scale)) `[` $scaleOffset `]` `step` $scaleStep)?
    (`zero` $zero^ `:` qualified(type($zero)))?
    attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `->` type($acc)
    custom<SameType>(ref($init), ref(type($acc)), type($init))
    custom<SameType>(ref($prefetch), ref(type($b)), type($prefetch))
  }];
  let hasVerifier = 1;
  let skipDefaultBuilders = 0;
  let builders = [
      // The required operands; set the optional ones through their mutable
      // accessors (`op.getInitMutable().assign(v)`).
      OpBuilder<(ins "::mlir::VectorType":$acc, "::mlir::Value":$a,
                    "::mlir::Value":$aOffset, "::mlir::Value":$lda,
                    "::mlir::Value":$ka, "::mlir::Value":$b,
                    "::mlir::Value":$bOffset, "::mlir::Value":$ldb,
                    "::mlir::Value":$k, CArg<"::mlir::Value", "{}">:$init),
                [{
      build($_builder, $_state, acc, a, aOffset, lda, ka, b, bOffset, ldb, k,
            /*rows=*/{}, /*outer=*/{}, {}, {}, init, /*prefetch=*/{}, {}, {}, /*scale=*/{}, {}, {}, {}, {},
            ::mlir::UnitAttr(), ::mlir::UnitAttr());
    }]>];
}

def Tile_OtherKeyOp : Tile_Op<"other_key"> {
  let summary = "Whether the program before this one had another key";
  let description = [{
    A worker calls the function for a run of programs. True in the first program of a call, and where `key` is not what it was
    in the program before. What that one left in scratch is still there. Executed at most once a program; `key` is not negative. CPUs only.
  }];
  let arguments = (ins Index:$key);
  let results = (outs I1:$result);
  let assemblyFormat = "$key attr-dict";
}

def Tile_BlockOp : Tile_Op<"block", [AttrSizedOperandSegments]> {
  let summary = "A block of a matmul, from memory to memory";
  let description = [{
    C[coff + i*ldc + j] = sum over k < K of A[off + i*lda + k] * B[boff + (k/g)*ldb + g*j + k%g]
    for i < valid and j < columns, in tile registers. A and B are bf16 in groups g = 2 and C is f32, or A is
    bytes without sign, B bytes with sign, g = 4, and C is i32, whose sums wrap. The last group of B is whole, with
    zeros past K; nothing past K is read of A. Sums of bf16: those of even and of odd k on their own over 32 of K, added to
    each other and then to what there was; denormals are zeros, of bf16 and of sums.

    With `parts n` numbers are sums of n bf16, the first the largest: part p of A lies `aPart` * p further on, of B `bPart` * p.
    Of each 32 of K parts p and q are multiplied where p + q < n, the product of the first two last. K is a multiple of 32.

    `prefetch %p[%off] step %s`: touches `s` elements of `p`, and as many more, four times each 64 bytes of a row of A.
    C1: rows are 16 or 32, columns 16, 32 or 48. C2: valid is 1 to 16 of 16 rows, absent (all) of 32.
    C3: the types are those above. C4: parts are 1, or 2 or 3 of bf16.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$a, Index:$aOffset,
      Index:$lda, Arg<Tile_BufferType, "", [MemRead]>:$b, Index:$bOffset,
      Index:$ldb, Index:$k, Arg<Tile_BufferType, "", [MemWrite]>:$c,
      Index:$cOffset, Index:$ldc, Optional<Index>:$valid,
      Optional<Tile_BufferType>:$prefetch, Optional<Index>:$prefetchOffset,
      Optional<Index>:$prefetchStep, Optional<Index>:$aPart,
      Optional<Index>:$bPart, I64Attr:$rows, I64Attr:$columns,
      DefaultValuedAttr<I64Attr, "1">:$parts);
  let assemblyFormat = [{
    `A` `(` $a `[` $aOffset `]` `,` `row` $lda `)` `B` `(` $b `[` $bOffset `]` `,` `k` $ldb `)` `over` $k
    (`parts` $parts `(` $aPart^ `,` $bPart `)`)?
    `C` `(` $c `[` $cOffset `]` `,` `row` $ldc `)` `rows` $rows (`valid` $valid^)? `columns` $columns
    (`prefetch` $prefetch^ `[` $prefetchOffset `]` `step` $prefetchStep)?
    attr-dict `:` qualified(type($a)) `,` qualified(type($b)) `->` qualified(type($c))
    custom<SameType>(ref($prefetch), ref(type($b)), type($prefetch))
  }];
  let hasVerifier = 1;
}

def Tile_MatmulOp : Tile_Op<"matmul", [AttrSizedOperandSegments]> {
  let summary = "Every block of a matmul, ended by a region";
  let description = [{
    A whole GPU kernel: for each batch index o, row i < m and column j < n

      sum over k < K of A[aoff + o.aouter + i*arow + k*ak]
                      * B[boff + o.bouter + j*bcol + k*bk]

    in f32, handed to the region as it lies in the registers of a thread: a run
    of consecutive columns of one row (vector<2xf32>, or f32 for one column),
    then its batch indices, row and first column. The region is one thread's:
    its tiles belong to the thread alone. It stores the elements itself, or,
    with `to %c`, yields one value of the run's type, which goes to the same
    place of c, a dense matrix a batch index. Then rows and columns past the
    edge are handed over as the last ones inside, and dropped; else they are not
    handed over.

    With `window` A is the input of a convolution, and never laid out as a
    matrix. Row i is the row-major position (image, output position); k the
    row-major position (tap, channel), or (channel, tap) with `channels_first`.
    A's element lies at

      aoff + o.aouter + image*arow + channel*ak + sum over d of p_d*pitch_d,
      p_d = (out_d*stride_d + tap_d*dilation_d - low_d) / spread_d

    and is zero where a p_d is no whole number or not in 0 .. in_d - 1. `window`
    has the number of channels, then (outputs, inputs, low, taps, pitch) of each
    d, `steps` its (stride, dilation, spread).

    With `ends` (i32) there is one batch dim or, of one size, none, and rows are
    shared out among its indices: row i is of the first o with ends[o] > i. A
    and c have rows alone, so A's batch stride is 0. A row that no index has
    gets zeros.

    `shape` says how: `algorithm` 0: blocks through shared memory, fused
    FMAs; one program a block. 1: Hopper's asynchronous copies and
    wgmmas (f16 and bf16); the blocks of the grid share all programs
    out among themselves. 2: few rows; B is read once, at most `rows` rows to a
    block, and the depth of both sides is contiguous. See docs/stack/tile.md for
    the other entries.

    C1: A and B have one batch stride for each batch size. C2: the region takes
    a value, the batch indices, row and column. C3: it yields what `to` needs.
    C4: `shape` has all entries. C5: `window` and `steps` are of the same dims.
    C6: `ends` has words of i32, and stands without `window`, `swap_ab` and what
    shares rows or depths among CTAs.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$a, Index:$aOffset,
      Index:$aRow, Index:$aK, Variadic<Index>:$aOuter,
      Arg<Tile_BufferType, "", [MemRead]>:$b, Index:$bOffset, Index:$bColumn,
      Index:$bK, Variadic<Index>:$bOuter, Index:$m, Index:$n, Index:$k,
      Variadic<Index>:$outer, Variadic<Index>:$window,
      Arg<Optional<Tile_BufferType>, "", [MemRead]>:$ends,
      Arg<Optional<Tile_BufferType>, "", [MemWrite]>:$c,
      OptionalAttr<DenseI64ArrayAttr>:$steps, UnitAttr:$channels_first,
      DictionaryAttr:$shape);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `A` `(` $a `[` $aOffset `]` `,` `row` $aRow `,` `k` $aK (`,` `outer` $aOuter^)? `)`
    `B` `(` $b `[` $bOffset `]` `,` `column` $bColumn `,` `k` $bK (`,` `outer` $bOuter^)? `)`
    `size` $m `,` $n `,` $k (`outer` $outer^)?
    (`window` $window^ `steps` $steps)? (`ends` $ends^ `:` qualified(type($ends)))?
    (`to` $c^ `:` qualified(type($c)))?
    `shape` $shape attr-dict `:` qualified(type($a)) `,` qualified(type($b)) $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// An entry of `shape`.
    int64_t shapeOf(::llvm::StringRef name) {
      return ::llvm::cast<::mlir::IntegerAttr>(getShape().get(name)).getInt();
    }
    /// Columns in a run: 1 for a scalar.
    int64_t run();
  }];
}

def Tile_AttentionOp : Tile_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "Every block of an attention, its scores never in memory";
  let description = [{
    A whole GPU kernel: for each batch index b, head h, row s and column e

      sum over t of weight(s, t) * V[voff + b*vb + g*vh + t*vr + e*vc]
      weight = softmax over t of score(scale * sum over d of Q[..s, d] * K[..t, d])

    with g = h / (heads / key heads), in f32, to O[ooff + b*ob + h*oh + s*or + e*oc].
    Strides are those of batch, head, row and element; sizes batch, heads, key
    heads, rows, keys, depth (of Q and K), columns (of V).

    The region is one thread's: it gets the scaled dot products of a run of keys
    (vector<2xf32>, or f32 for one) with batch, head, row and first key, and
    yields their scores; -inf leaves a key out. Rows and keys past the edge are
    handed over as the last ones inside, and dropped. With `causal` row s sees
    the keys below s + causal. With `mask` (algorithm 1), i1, no row sees key t where
    mask[moff + b*mb + h*mh + t*mk] is false; `at` has moff, mb, mh, mk.

    `shape` says how: `algorithm` 0: blocks through shared memory, fused
    FMAs; one program a block. 1: Hopper's asynchronous copies and
    wgmmas (f16 and bf16); the blocks of the grid share all programs
    out among themselves. `empty`: a row that sees no key is 0 (0), NaN (1), the
    mean of all values (2). See docs/stack/tile.md for the other entries.

    C1: four strides a buffer, seven sizes. C2: the region takes a value, batch,
    head, row and key. C3: it yields a value of the same type. C4: `shape` has
    all entries. C5: a mask has four places.
  }];
  let arguments = (ins Arg<Tile_BufferType, "", [MemRead]>:$q, Index:$qOffset,
      Variadic<Index>:$qStrides, Arg<Tile_BufferType, "", [MemRead]>:$k,
      Index:$kOffset, Variadic<Index>:$kStrides,
      Arg<Tile_BufferType, "", [MemRead]>:$v, Index:$vOffset,
      Variadic<Index>:$vStrides, Arg<Tile_BufferType, "", [MemWrite]>:$o,
      Index:$oOffset, Variadic<Index>:$oStrides, Variadic<Index>:$sizes,
      Optional<Index>:$causal,
      Arg<Optional<Tile_BufferType>, "", [MemRead]>:$mask,
      Variadic<Index>:$maskAt, F32Attr:$scale, DictionaryAttr:$shape);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `Q` `(` $q `[` $qOffset `]` `,` $qStrides `)` `K` `(` $k `[` $kOffset `]` `,` $kStrides `)`
    `V` `(` $v `[` $vOffset `]` `,` $vStrides `)` `O` `(` $o `[` $oOffset `]` `,` $oStrides `)`
    `size` $sizes (`causal` $causal^)?
    (`mask` $mask^ `at` $maskAt `:` qualified(type($mask)))? `scale` $scale `shape` $shape attr-dict
    `:` qualified(type($q)) `,` qualified(type($k)) `,` qualified(type($v)) `,` qualified(type($o)) $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// An entry of `shape`.
    int64_t shapeOf(::llvm::StringRef name) {
      return ::llvm::cast<::mlir::IntegerAttr>(getShape().get(name)).getInt();
    }
    /// Keys in a run: 1 for a scalar.
    int64_t run();
    /// Whether the region yields what it gets.
    bool keepsScores();
  }];
}

def Tile_YieldOp
    : Tile_Op<"yield", [Pure, ParentOneOf<["MatmulOp", "AttentionOp"]>,
                        Terminator]> {
  let summary = "Ends the region of a matmul or an attention";
  let arguments = (ins Optional<AnyTypeOf<[F32, VectorOfRankAndType<[1], [F32]>]>>:$value);
  let assemblyFormat = "($value^ `:` type($value))? attr-dict";
}

//===-- Status ------------------------------------------------------------===//

def Tile_SetStatusOp : Tile_Op<"set_status", [MemoryEffects<[MemWrite]>]> {
  let summary = "Reports a KernelStatus when the condition holds";
  let arguments = (ins ConfinedAttr<I32Attr, [IntPositive]>:$code, I1:$condition);
  let assemblyFormat = "$code `if` $condition attr-dict";
}

#endif // KNAPPER_IR_TILE_TILEOPS
