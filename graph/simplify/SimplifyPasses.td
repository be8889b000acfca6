// The passes that make an imported graph smaller and give it its canonical form.
#ifndef KNAPPER_GRAPH_SIMPLIFY_PASSES
#define KNAPPER_GRAPH_SIMPLIFY_PASSES

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"simplify", "::mlir::func::FuncOp"> {
  let summary = "algebra, movement of elements, index tensors, dead and repeated ops";
  let description = "See graph/simplify/Simplify.h for the canonical form.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def FindComposites : Pass<"find-composites", "::mlir::func::FuncOp"> {
  let summary = "softmax, normalisations, gelu, sigmoid, rope and attention out of their parts";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def MergeNumbers : Pass<"merge-numbers", "::mlir::func::FuncOp"> {
  let summary = "two constant factors, or integers added, in a row become one";
  let description =
      "See graph/simplify/MergeNumbers.h for what of floats may change.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def FoldConv : Pass<"fold-conv", "::mlir::func::FuncOp"> {
  let summary = "a scale after a convolution becomes part of its filter, zeros around its image part of its border";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def MergeDots : Pass<"merge-dots", "::mlir::func::FuncOp"> {
  let summary = "matmuls of one left side with several weights become one matmul";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"all", "all", "bool", "false",
                        "also matmuls whose results go into elementwise ops">];
}

def NarrowDots : Pass<"narrow-dots", "::mlir::func::FuncOp"> {
  let summary = "matmuls of widened 16-bit operands as matmuls of these (GPUs)";
  let description = "See graph/simplify/NarrowDots.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def MatrixDots : Pass<"matrix-dots", "::mlir::func::FuncOp"> {
  let summary = "contractions with several dims of columns or depth as matmuls";
  let description = "See graph/simplify/MatrixDots.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
