// Element types of the tensor dialect's own.
#ifndef KNAPPER_IR_TENSOR_TYPES
#define KNAPPER_IR_TENSOR_TYPES

include "ir/tensor/Dialect.td"
include "mlir/IR/AttrTypeBase.td"

def Ts_StringType : TypeDef<Ts_Dialect, "String"> {
  let mnemonic = "string";
  let summary = "text of any length as an element: where it lies and how long it is, 16 bytes";
  let description = "Only ts.external computes with it; views, branches and loops pass it on. Never part of a kernel.";
}

#endif
