// Regions of tensor ops that become one launch.
#ifndef KNAPPER_IR_TENSOR_KERNELOPS
#define KNAPPER_IR_TENSOR_KERNELOPS

include "ir/tensor/OpBase.td"

def Ts_KernelOp : Ts_Op<"kernel", [IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "ops that run as one launch";
  let description = [{
    Operands are the tensors that the launch reads (block arguments inside), results those that it writes. Fusion moves
    ops in, unchanged: they keep verifiers, reference evaluation and locations. `hero` says which family of schedules
    applies; `schedule` is filled by the schedule phase, one entry a guard.
    C1: block arguments have the operands' types. C2: yielded types are the results'.
  }];
  let arguments = (ins Variadic<Ts_Tensor>:$inputs, Ts_HeroAttr:$hero, OptionalAttr<ArrayAttr>:$schedules,
                       OptionalAttr<StrAttr>:$signature);
  let results = (outs Variadic<Ts_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    YieldOp yield();
  }];
}

def Ts_YieldOp : Ts_Op<"yield", [Terminator, ParentOneOf<["KernelOp"]>]> {
  let summary = "ends a kernel's region with its results";
  let arguments = (ins Variadic<Ts_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}

#endif
