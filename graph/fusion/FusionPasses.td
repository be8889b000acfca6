// Passes of graph/fusion.
#ifndef KNAPPER_GRAPH_FUSION_PASSES
#define KNAPPER_GRAPH_FUSION_PASSES

include "mlir/Pass/PassBase.td"

def FormKernels : Pass<"form-kernels", "mlir::ModuleOp"> {
  let summary = "moves the ops of every function into ts.kernel regions";
  let description = [{
    Every op that computes ends up in exactly one kernel; constants, constant expressions and views (reshape,
    contiguous slice) stay outside. A fusion is taken when the kernel rules admit it (`graph/fusion/Rules.h`) and the
    modelled time falls (`graph/fusion/Cost.h`). With `remarks`, each boundary that stays says why.
  }];
  let options = [
    Option<"remarks", "remarks", "bool", "false", "emit a remark for every boundary between kernels">,
    Option<"flops", "flops", "double", "4e11", "f32 multiply-add peak of the machine, per second">,
    Option<"bandwidth", "bandwidth", "double", "2e10", "bytes per second from memory">,
    Option<"cacheBandwidth", "cache-bandwidth", "double", "1e11", "bytes per second within the last-level cache">,
    Option<"launchSeconds", "launch-seconds", "double", "2e-6", "seconds a launch costs">,
    Option<"roundsStored", "rounds-stored", "bool", "false", "what matmuls hand to other kernels is stored in the function's storage type">,
    Option<"cacheBytes", "cache-bytes", "int64_t", "4194304", "bytes of cache that hold a kernel's operands">,
  ];
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def KernelSignatures : Pass<"kernel-signatures", "mlir::ModuleOp"> {
  let summary = "sets the signature of every kernel";
  let description = "Equal kernels (up to names of symbols, locations, which weight) get equal signatures.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
