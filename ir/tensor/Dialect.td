// The tensor dialect: whole tensors, immutable, shapes may be symbolic.
#ifndef KNAPPER_IR_TENSOR_DIALECT
#define KNAPPER_IR_TENSOR_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/DialectBase.td"

def Ts_Dialect : Dialect {
  let name = "ts";
  let cppNamespace = "::knapper::ts";
  let summary = "whole tensors with symbolic sizes";
  let description = [{
    A value is a whole tensor; ops are pure. Elementwise ops take operands of equal shape, broadcasting is an op of its
    own. Symbolic sizes are part of the type (`#ts.dims`). Constraints are numbered (C1, C2, ...) in each op's
    description; verifier messages name them.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

#endif
