// What the levels above need to know of an op: one interface for the scalar function, one for
// the index map. Fusion, cost and schedules read everything from here.
#ifndef KNAPPER_IR_TENSOR_INTERFACES
#define KNAPPER_IR_TENSOR_INTERFACES

include "mlir/IR/OpBase.td"

def Ts_ElementwiseInterface : OpInterface<"ElementwiseOpInterface"> {
  let cppNamespace = "::knapper::ts";
  let description = [{
    result[i] = f(operand0[i], operand1[i], ...) for all i; every operand has the result's shape.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits f with `arith` and `math` ops. Operands are scalars or vectors of one shape, in the compute form of their
      element types (f16 and bf16 already widened to f32, unsigned integers as those without a sign, storage types
      as bytes); the result is in the compute form of the result's
      element type.
    }], "mlir::Value", "buildElement",
    (ins "mlir::OpBuilder &":$builder, "mlir::Location":$location, "mlir::ValueRange":$operands)>,
    InterfaceMethod<"Arithmetic operations an element costs; a transcendental counts about 15.", "int64_t",
    "elementFlops", (ins), "", "return 1;">,
  ];
}

def Ts_IndexingInterface : OpInterface<"IndexingOpInterface"> {
  let cppNamespace = "::knapper::ts";
  let description = [{
    The op as a loop nest: an iteration space, and for every operand where an iteration reads it. See
    `ir/tensor/Indexing.h`.
  }];
  let methods = [
    InterfaceMethod<"Loops (result dims first, then reduced ones) and a map for each operand.",
    "::knapper::ts::Indexing", "indexing">,
    InterfaceMethod<"Arithmetic operations of one iteration.", "int64_t", "iterationFlops", (ins), "",
    "return 1;">,
  ];
}

#endif
