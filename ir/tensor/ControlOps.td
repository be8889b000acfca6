// Branches, loops, and calls of the host's operators. Bodies of branches and
// loops are functions of the module, one for each op: every pass works on a
// function of one block, so a body is compiled as the entry is, and its boundary
// is one for fusion.
#ifndef KNAPPER_IR_TENSOR_CONTROLOPS
#define KNAPPER_IR_TENSOR_CONTROLOPS

include "ir/tensor/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

// Not pure when it sets symbols: a size may be all that is read of it.
class Ts_ControlOp<string mnemonic>
    : Op<Ts_Dialect, mnemonic,
         [AttrSizedOperandSegments,
          DeclareOpInterfaceMethods<SymbolUserOpInterface>,
          DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]>;

def Ts_IfOp : Ts_ControlOp<"if"> {
  let summary = "the results of one of two bodies";
  let description = [{
    The condition is read when the op runs; only the chosen body runs. A body sees what it is given and the module's
    symbols. Where the two give different sizes, the result's size is a symbol named in `symbols`, which the op sets.
    C1: each body takes the types of its inputs and gives the results' element types and ranks. C2: a dim that differs
    from the body's is a symbol in `symbols`.
  }];
  let arguments = (ins 0DTensorOf<[I1]>:$condition,
      FlatSymbolRefAttr:$then_body, FlatSymbolRefAttr:$else_body,
      Variadic<Ts_AnyTensor>:$then_inputs, Variadic<Ts_AnyTensor>:$else_inputs,
      StrArrayAttr:$symbols);
  let results = (outs Variadic<Ts_AnyTensor>:$results);
  let assemblyFormat = [{
    $condition `:` type($condition) `then` $then_body `(` ($then_inputs^ `:` type($then_inputs))? `)`
    `else` $else_body `(` ($else_inputs^ `:` type($else_inputs))? `)` `symbols` $symbols attr-dict
    `to` `(` type($results) `)`
  }];
}

def Ts_LoopOp : Ts_ControlOp<"loop"> {
  let summary = "runs a body again and again, carrying values from one "
                "iteration to the next";
  let description = [{
    The body takes the carried values, then the captures, and gives the next condition (where the op has one), the next
    carried values, then one value a scan. Inside it the symbol `counter` is the number of the iteration, from 0. The
    loop ends after `trips` iterations (no bound when absent) or as soon as the condition is false; it is tested before
    each iteration. Results are the last carried values, then the scans: the values of all iterations joined along a
    new first dim, from the last to the first where `reversed` says so.

    A carried dim that changes is, in the body's argument and in the result, a symbol in `symbols`, which the op sets
    from the operand and then after each iteration. With a condition, `count` is the symbol of how many iterations ran.
    C1: the body's arguments are the carried values and captures; carried dims may be symbols of `symbols` instead.
    C2: the body gives a 0-d i1 exactly for a condition, then values of the arguments' element types and ranks, whose
    dims differ only where the argument's is a symbol of `symbols`. C3: results are typed as the carried arguments, then
    [trips or count, dims of the scan]. C4: scans need `trips` without a condition, or `count` with one, and only the
    former may be reversed.
  }];
  let arguments = (ins FlatSymbolRefAttr:$body, StrAttr:$counter,
      OptionalAttr<Ts_DimAttr>:$trips, Optional<0DTensorOf<[I1]>>:$condition,
      Variadic<Ts_AnyTensor>:$carried, Variadic<Ts_AnyTensor>:$captures,
      OptionalAttr<StrAttr>:$count, StrArrayAttr:$symbols,
      DenseBoolArrayAttr:$reversed);
  let results = (outs Variadic<Ts_AnyTensor>:$results);
  let assemblyFormat = [{
    $body `counter` $counter (`trips` $trips^)? (`while` $condition^ `:` type($condition))?
    `carried` `(` ($carried^ `:` type($carried))? `)` `captures` `(` ($captures^ `:` type($captures))? `)`
    (`count` $count^)? `symbols` $symbols `reversed` $reversed attr-dict `to` `(` type($results) `)`
  }];
  let extraClassDeclaration = [{
    unsigned numScans() { return getReversed().size(); }
  }];
}

def Ts_ExternalOp : Op<Ts_Dialect, "external", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "an operator that the runtime finds by domain and name";
  let description = [{
    Runs on the host. `version` is the domain's in the model, `parameters` are the node's attributes: i64, f32, string,
    arrays of them, or a small tensor. `present` has an entry an operand of the node, false where an optional one was
    left out. Dims of the results that only a run knows are symbols in `symbols`, which the op sets before it computes.
    Whether it has effects besides its results is not known: it is neither merged with an equal one nor left out.
    C1: as many operands as `present` has trues. C2: every symbol is a dim of a result. C3: parameters are of these kinds.
  }];
  let arguments = (ins StrAttr:$domain, StrAttr:$operator_name, I64Attr:$version, DictionaryAttr:$parameters,
      DenseBoolArrayAttr:$present, StrArrayAttr:$symbols, Variadic<Ts_AnyTensor>:$inputs);
  let results = (outs Variadic<Ts_AnyTensor>:$results);
  let assemblyFormat = [{
    $domain $operator_name `version` $version $parameters `present` $present
    `(` ($inputs^ `:` type($inputs))? `)` `symbols` $symbols attr-dict `to` `(` type($results) `)`
  }];
  let hasVerifier = 1;
}

def Ts_CheckOp : Op<Ts_Dialect, "check", []> {
  let summary = "the run fails with a user error where the comparison of two "
                "sizes does not hold";
  let description = "In a body it is checked when the body runs.";
  let arguments = (ins Ts_DimAttr:$lhs, Ts_ComparePredicateAttr:$predicate,
      Ts_DimAttr:$rhs, StrAttr:$message);
  let assemblyFormat = "$lhs $predicate $rhs $message attr-dict";
}

#endif
