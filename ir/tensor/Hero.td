// What fusion and the cost model need to know of the ops that decide how a
// kernel is computed.
#ifndef KNAPPER_IR_TENSOR_HERO
#define KNAPPER_IR_TENSOR_HERO

include "mlir/IR/OpBase.td"

def Ts_KernelHeroInterface : OpInterface<"KernelHeroOpInterface"> {
  let cppNamespace = "::knapper::ts";
  let description = [{
    An op that decides how its kernel is computed: it has schedules of its own, and the kernel computes each element of
    it once, whatever reads it. The other ops of a kernel give any element on demand. Each op's facts stand in
    `ir/tensor/Heroes.cpp`; its schedules in `codegen/schedule`.
  }];
  let methods = [
    InterfaceMethod<"The family of schedules that computes it.", "::knapper::ts::Hero", "hero">,
    InterfaceMethod<"Operations of its matmuls; a fused multiply-add counts two.", "::knapper::ts::Dim",
    "matmulFlops", (ins), "", "return ::knapper::ts::Dim::constant($_op->getContext(), 0);">,
    InterfaceMethod<"Its other operations: sums and comparisons.", "::knapper::ts::Dim", "otherFlops", (ins), "",
    "return ::knapper::ts::Dim::constant($_op->getContext(), 0);">,
    InterfaceMethod<[{
      What computing what lies between takes besides, in operations: an estimate for time, which no report counts.
    }], "::knapper::ts::Dim", "hiddenFlops", (ins), "",
    "return ::knapper::ts::Dim::constant($_op->getContext(), 0);">,
    InterfaceMethod<"Operations an element of the result costs; an estimate.", "int64_t", "resultFlops", (ins), "",
    "return 0;">,
    InterfaceMethod<[{
      How many elements of an operand are read, all in all; nothing: each of them once.
    }], "::std::optional<::knapper::ts::Dim>", "elementsRead", (ins "unsigned":$operand), "",
    "return ::std::nullopt;">,
    InterfaceMethod<"Passes over its rows that it makes; 0: it does not work row by row.", "int64_t", "rowPasses", (ins),
    "", "return 0;">,
    InterfaceMethod<[{
      Whether its operands may be of a narrower type in memory than the one it computes in, so that no conversion is
      wanted before it.
    }], "bool", "readsNarrow", (ins), "", "return false;">,
  ];
}

#endif
