// A recurrent cell and its steps as one op.
#ifndef KNAPPER_IR_TENSOR_RECURRENCE
#define KNAPPER_IR_TENSOR_RECURRENCE

include "ir/tensor/OpBase.td"

def Ts_RecurrenceOp
    : Ts_Op<"recurrence", [AttrSizedOperandSegments, IsolatedFromAbove]> {
  let summary = "a cell applied step by step along the first dim of sequences";
  let description = [{
    The body takes the states [B, H], element t of each sequence [T, ...] without its first dim, and the weights as they
    are. It ends with ts.next, which gives the next states, then one value for each output. Results are the last states,
    then the outputs [T, ...], element t of which is that of step t. A sequence (`reversed`) or an output
    (`reversed_outputs`) is read or written from the last element to the first where its entry says so.

    Rows do not meet: in the body states are operands of elementwise ops and left operands of `ts.dot x, w contract [1]`,
    and nothing else; what depends on them has their dims. So each row of B runs through all steps on its own, and the
    weights stay where they are computed with.
    C1: body arguments, next values and results have these types. C2: states are floats of one shape [B, H]. C3: states
    are used as said. C4: the flags are as many as sequences and outputs.
  }];
  let arguments = (ins Ts_DimAttr:$steps, Variadic<Ts_FloatTensor>:$states,
      Variadic<Ts_Tensor>:$sequences, Variadic<Ts_Tensor>:$weights,
      DenseBoolArrayAttr:$reversed, DenseBoolArrayAttr:$reversed_outputs);
  let results = (outs Variadic<Ts_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `steps` $steps `states` `(` $states `:` type($states) `)` `sequences` `(` ($sequences^ `:` type($sequences))? `)`
    `reversed` $reversed `weights` `(` ($weights^ `:` type($weights))? `)` `outputs` $reversed_outputs attr-dict
    `to` `(` type($results) `)` $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    NextOp next();
    /// The matmuls of the states, in order.
    ::llvm::SmallVector<DotOp> matmuls();
    mlir::Block::BlockArgListType stateArguments() {
      return getBody().getArguments().take_front(getStates().size());
    }
    mlir::Block::BlockArgListType sequenceArguments() {
      return getBody().getArguments().slice(getStates().size(), getSequences().size());
    }
    mlir::Block::BlockArgListType weightArguments() {
      return getBody().getArguments().take_back(getWeights().size());
    }
  }];
}

def Ts_NextOp : Ts_Op<"next", [Terminator, HasParent<"RecurrenceOp">]> {
  let summary =
      "ends a step of a recurrence: its next states, then its outputs";
  let arguments = (ins Variadic<Ts_Tensor>:$values);
  let assemblyFormat = "$values `:` type($values) attr-dict";
}

#endif
