#ifndef KNAPPER_GRAPH_QUANTIZE_PASSES
#define KNAPPER_GRAPH_QUANTIZE_PASSES

include "mlir/Pass/PassBase.td"

def ConvertFloat : Pass<"convert-float", "::mlir::func::FuncOp"> {
  let summary = "a float32 graph with bf16 or f16 storage";
  let description = "See graph/quantize/ConvertFloat.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">];
}

def ByteMatmuls : Pass<"byte-matmuls", "::mlir::func::FuncOp"> {
  let summary = "matmuls of bytes on floating-point units (GPUs)";
  let description = "See graph/quantize/ByteMatmuls.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def QuantisedMatmuls : Pass<"quantised-matmuls", "::mlir::func::FuncOp"> {
  let summary = "matmuls of dequantised bytes as matmuls of bytes";
  let description = "See graph/quantize/QuantisedMatmuls.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def ScaledMatmuls : Pass<"scaled-matmuls", "::mlir::func::FuncOp"> {
  let summary = "matmuls with dequantised weights as ts.scaled_dot";
  let description = "See graph/quantize/ScaledMatmuls.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def PackedMatmuls : Pass<"packed-matmuls", "::mlir::func::FuncOp"> {
  let summary = "ts.scaled_dot as ts.packed_dot (GPUs)";
  let description = "See graph/quantize/PackedMatmuls.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"few", "few", "int64_t", "32",
                        "matmuls of more rows stay">];
}

def QuantizeWeights : Pass<"quantize-weights", "::mlir::func::FuncOp"> {
  let summary = "matmuls whose constant matrices are stored as integers";
  let description = "See graph/quantize/QuantizeWeights.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options =
      [Option<"bits", "bits", "int64_t", "8", "8 or 4">,
       Option<"group", "group", "int64_t", "64",
              "rows of a column that share a scale">,
       Option<"asymmetric", "asymmetric", "bool", "false", "with zero points">,
       Option<"least", "least", "int64_t", "4096", "smaller matrices stay">];
}

def RoundMatmuls : Pass<"round-matmuls", "::mlir::func::FuncOp"> {
  let summary = "matmuls of float32 that may round their operands to tf32";
  let description = "See graph/quantize/RoundMatmuls.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def WidenScatter : Pass<"widen-scatter", "::mlir::func::FuncOp"> {
  let summary = "16-bit updates that are added or multiplied, in float32";
  let description = "See graph/quantize/WidenScatter.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
