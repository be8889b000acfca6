// Attributes of the tensor dialect: sizes, encodings, weights.
#ifndef KNAPPER_IR_TENSOR_ATTRIBUTES
#define KNAPPER_IR_TENSOR_ATTRIBUTES

include "ir/tensor/Dialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"

class Ts_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Ts_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Ts_DimAttr : Ts_Attr<"Dim", "dim"> {
  let summary = "a size: integer polynomial over symbols, in normal form";
  let description = [{
    Written as an expression in quotes: `#ts.dim<"2*batch*seq + 1">`. Never built directly: the arithmetic of
    `ir/tensor/Dim.h` keeps the normal form (monomials sorted, no zero coefficient).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$coefficients,
                        ArrayRefParameter<"mlir::ArrayAttr">:$monomials);
  let hasCustomAssemblyFormat = 1;
}

def Ts_DimFnAttr : Ts_Attr<"DimFn", "dim_fn"> {
  let summary = "an opaque atom of a size: floordiv, mod, min or max of two sizes";
  let parameters = (ins "uint32_t":$fn, "DimAttr":$lhs, "DimAttr":$rhs);
  let assemblyFormat = "`<` $fn `,` $lhs `,` $rhs `>`";
}

def Ts_DimsAttr : Ts_Attr<"Dims", "dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "the sizes of a tensor with symbolic dims, as its encoding";
  let description = [{
    `tensor<?x128xf32, #ts.dims<"batch*seq", 128>>`. A static tensor carries no encoding; every `?` has a
    non-constant size here, every other dim the same number (C1).
  }];
  let parameters = (ins ArrayRefParameter<"DimAttr">:$dims);
  let hasCustomAssemblyFormat = 1;
}

def Ts_SymbolAttr : Ts_Attr<"Symbol", "symbol"> {
  let summary = "a symbol's declaration: name, range, divisibility";
  let description = "max -1: unbounded. The module holds all declarations in the array attribute `ts.symbols`.";
  let parameters = (ins "mlir::StringAttr":$name, "int64_t":$min, "int64_t":$max, "int64_t":$divisor);
  let assemblyFormat = "`<` $name `,` $min `,` $max `,` $divisor `>`";
}

def Ts_WeightAttr : Ts_Attr<"Weight", "weight"> {
  let summary = "constant data that stays in its file";
  let description = [{
    `file` indexes the module's `ts.files` (0 is the model itself), `offset` and `bytes` lie inside it; little endian,
    row-major, in the dtype of the op's result. The data is read when constants are packed, never as an attribute.
  }];
  let parameters = (ins "uint32_t":$file, "uint64_t":$offset, "uint64_t":$bytes,
                        "mlir::StringAttr":$name);
  let assemblyFormat = "`<` $file `,` $offset `,` $bytes `,` $name `>`";
}

class Ts_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::knapper::ts";
  let genSpecializedAttr = 0;
}
class Ts_EnumAttr<EnumAttrInfo info, string mnemonic> : EnumAttr<Ts_Dialect, info, mnemonic> {
  let assemblyFormat = "$value";
}

def Ts_ReduceKind : Ts_Enum<"ReduceKind", "how elements are combined", [
  I32EnumAttrCase<"add", 0>, I32EnumAttrCase<"mul", 1>, I32EnumAttrCase<"max", 2>,
  I32EnumAttrCase<"min", 3>, I32EnumAttrCase<"logical_and", 4, "and">,
  I32EnumAttrCase<"logical_or", 5, "or">]>;
def Ts_ReduceKindAttr : Ts_EnumAttr<Ts_ReduceKind, "reduce_kind">;

def Ts_ComparePredicate : Ts_Enum<"ComparePredicate", "comparison; ordered except ne", [
  I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>,
  I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]>;
def Ts_ComparePredicateAttr : Ts_EnumAttr<Ts_ComparePredicate, "predicate">;

def Ts_Rounding : Ts_Enum<"Rounding", "to which power of two a conversion to f8E8M0FNU goes", [
  I32EnumAttrCase<"nearest", 0>, I32EnumAttrCase<"up", 1>, I32EnumAttrCase<"down", 2>]>;
def Ts_RoundingAttr : Ts_EnumAttr<Ts_Rounding, "rounding">;

def Ts_PadMode : Ts_Enum<"PadMode", "what lies outside", [
  I32EnumAttrCase<"constant", 0>, I32EnumAttrCase<"reflect", 1>, I32EnumAttrCase<"edge", 2>,
  I32EnumAttrCase<"wrap", 3>]>;
def Ts_PadModeAttr : Ts_EnumAttr<Ts_PadMode, "pad_mode">;

def Ts_PoolKind : Ts_Enum<"PoolKind", "what a window computes", [
  I32EnumAttrCase<"max", 0>, I32EnumAttrCase<"average", 1>, I32EnumAttrCase<"sum", 2>]>;
def Ts_PoolKindAttr : Ts_EnumAttr<Ts_PoolKind, "pool_kind">;

def Ts_Hero : Ts_Enum<"Hero", "the op that decides how a kernel is scheduled", [
  I32EnumAttrCase<"pointwise", 0>, I32EnumAttrCase<"reduce", 1>, I32EnumAttrCase<"transpose", 2>,
  I32EnumAttrCase<"gather", 3>, I32EnumAttrCase<"matmul", 4>, I32EnumAttrCase<"conv", 5>,
  I32EnumAttrCase<"pool", 6>, I32EnumAttrCase<"attention", 7>, I32EnumAttrCase<"scan", 8>,
  I32EnumAttrCase<"sort", 9>, I32EnumAttrCase<"scatter", 10>]>;
def Ts_HeroAttr : Ts_EnumAttr<Ts_Hero, "hero">;

#endif
