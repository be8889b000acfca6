#ifndef KNAPPER_GRAPH_QUANTIZE_PASSES
#define KNAPPER_GRAPH_QUANTIZE_PASSES

include "mlir/Pass/PassBase.td"

def ConvertFloat : Pass<"convert-float", "::mlir::func::FuncOp"> {
  let summary = "a float32 graph with bf16 or f16 storage";
  let description = "See graph/quantize/ConvertFloat.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">];
}

def ByteProducts : Pass<"byte-products", "::mlir::func::FuncOp"> {
  let summary = "products of bytes on floating-point units (GPUs)";
  let description = "See graph/quantize/ByteProducts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def QuantisedProducts : Pass<"quantised-products", "::mlir::func::FuncOp"> {
  let summary = "products of dequantised bytes as products of bytes";
  let description = "See graph/quantize/QuantisedProducts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def ScaledProducts : Pass<"scaled-products", "::mlir::func::FuncOp"> {
  let summary = "products with dequantised weights as ts.scaled_dot";
  let description = "See graph/quantize/ScaledProducts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def PackedProducts : Pass<"packed-products", "::mlir::func::FuncOp"> {
  let summary = "ts.scaled_dot as ts.packed_dot (GPUs)";
  let description = "See graph/quantize/PackedProducts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options = [Option<"few", "few", "int64_t", "32",
                        "products of more rows stay">];
}

def QuantizeWeights : Pass<"quantize-weights", "::mlir::func::FuncOp"> {
  let summary = "products whose constant matrices are stored as integers";
  let description = "See graph/quantize/QuantizeWeights.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
  let options =
      [Option<"bits", "bits", "int64_t", "8", "8 or 4">,
       Option<"group", "group", "int64_t", "64",
              "rows of a column that share a scale">,
       Option<"asymmetric", "asymmetric", "bool", "false", "with zero points">,
       Option<"least", "least", "int64_t", "4096", "smaller matrices stay">];
}

def RoundProducts : Pass<"round-products", "::mlir::func::FuncOp"> {
  let summary = "products of float32 that may round their operands to tf32";
  let description = "See graph/quantize/RoundProducts.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

def WidenScatter : Pass<"widen-scatter", "::mlir::func::FuncOp"> {
  let summary = "16-bit updates that are added or multiplied, in float32";
  let description = "See graph/quantize/WidenScatter.h.";
  let dependentDialects = ["::knapper::ts::TsDialect"];
}

#endif
