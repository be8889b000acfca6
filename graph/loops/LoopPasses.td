#ifndef KNAPPER_GRAPH_LOOPS_PASSES
#define KNAPPER_GRAPH_LOOPS_PASSES

include "mlir/Pass/PassBase.td"

def SimplifyLoops : Pass<"simplify-loops", "::mlir::ModuleOp"> {
  let summary = "what no step of a loop changes, and matmuls of all steps, beside the loop";
  let description = "See graph/loops/SimplifyLoops.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
