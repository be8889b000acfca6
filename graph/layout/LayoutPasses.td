#ifndef KNAPPER_GRAPH_LAYOUT_PASSES
#define KNAPPER_GRAPH_LAYOUT_PASSES

include "mlir/Pass/PassBase.td"

def Layout : Pass<"layout", "::mlir::func::FuncOp"> {
  let summary = "channels last for convolutions and what is between them";
  let description = "See graph/layout/ChannelsLast.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def SplitReductions : Pass<"split-reductions", "::mlir::func::FuncOp"> {
  let summary = "long reductions with few results in two steps (GPUs)";
  let description = "See graph/layout/SplitReductions.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def SplitSorts : Pass<"split-sorts", "::mlir::func::FuncOp"> {
  let summary = "long sorts in runs and merges (GPUs)";
  let description = "See graph/layout/SplitSorts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def SplitScatters : Pass<"split-scatters", "::mlir::func::FuncOp"> {
  let summary = "many updates of few elements in parts (CPUs)";
  let description = "See graph/layout/SplitScatters.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def PackFilters : Pass<"pack-filters", "::mlir::func::FuncOp"> {
  let summary = "filters that are no constants in panels (CPUs, formed kernels)";
  let description = "See graph/layout/PackFilters.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"l2Bytes", "l2-bytes", "int64_t", "1 << 20", "the second-level cache of a core">,
                 Option<"programs", "programs", "int64_t", "8", "programs that keep the device busy">];
}

def ConvPhases : Pass<"conv-phases", "::mlir::func::FuncOp"> {
  let summary = "transposed convolutions as ordinary ones (GPUs)";
  let description = "See graph/layout/ConvPhases.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def MergeReducedDims : Pass<"merge-reduced-dims", "::mlir::func::FuncOp"> {
  let summary = "inner dims that a reduction takes together as one (GPUs)";
  let description = "See graph/layout/MergeReducedDims.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def AlignMatrices : Pass<"align-matrices", "::mlir::func::FuncOp"> {
  let summary = "constant matrices with rows at aligned places (GPUs)";
  let description = "See graph/layout/AlignMatrices.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def VectorDots : Pass<"vector-dots", "::mlir::func::FuncOp"> {
  let summary = "matmuls of a matrix and a vector as reductions";
  let description = "See graph/layout/VectorDots.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def GateDots : Pass<"gate-dots", "::mlir::ModuleOp"> {
  let summary = "gates of recurrent cells as reductions (GPUs)";
  let description = "See graph/layout/GateDots.h.";
  let options = [Option<"mostBytes", "most-bytes", "int64_t", "1 << 20", "bytes of the matrix that a step may read, once a row">];
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def PadChannels : Pass<"pad-channels", "::mlir::func::FuncOp"> {
  let summary = "channels of 16-bit convolutions up to multiples of eight (GPUs)";
  let description = "See graph/layout/PadChannels.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
