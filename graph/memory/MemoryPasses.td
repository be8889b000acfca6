// Passes of graph/memory.
#ifndef KNAPPER_GRAPH_MEMORY_PASSES
#define KNAPPER_GRAPH_MEMORY_PASSES

include "mlir/Pass/PassBase.td"

def OrderKernels : Pass<"order-kernels", "mlir::func::FuncOp"> {
  let summary = "puts kernels into an order that keeps the memory peak low";
  let description = [{
    Sizes as in `graph/fusion/Cost.h`. The order stays when another one does not lower the modelled peak by 1 % or
    more, and in functions that bind symbols from data.
  }];
  let options = [Option<"report", "report", "bool", "false", "emit the modelled peak before and after as a remark">];
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
