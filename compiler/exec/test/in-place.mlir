// RUN: knapper compile %s --start-from=schedule --stop-after=plan | FileCheck %s

// A chain of kernels: the second takes its operand's place, the third lies
// apart since a part of it is returned (its buffer lives until the copy), the
// last writes the output.
!t = tensor<?x8xf32, #ts.dims<"n", 8>>
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>]} {
func.func @main(%x: !t) -> (!t, tensor<1x8xf32>) {
  %p = ts.kernel pointwise (%a = %x : !t) -> !t {
    %0 = ts.neg %a : !t
    ts.yield %0 : !t
  } loc("first")
  %q = ts.kernel pointwise (%a = %p : !t) -> !t {
    %0 = ts.exp %a : !t
    ts.yield %0 : !t
  } loc("second")
  %r = ts.kernel pointwise (%a = %q : !t) -> !t {
    %0 = ts.neg %a : !t
    ts.yield %0 : !t
  } loc("third")
  %y = ts.kernel pointwise (%a = %r : !t) -> !t {
    %0 = ts.tanh %a : !t
    ts.yield %0 : !t
  } loc("fourth")
  %s = ts.slice %r [#ts.dim<0>, #ts.dim<0>] [1, 1] : !t to tensor<1x8xf32>
  return %y, %s : !t, tensor<1x8xf32>
}
}

// CHECK-LABEL: "buffers":
// CHECK:      "kind": "temp",
// CHECK-NEXT: "bytes"
// CHECK-NEXT: "last": 2,
// CHECK-NEXT: "name": "first"
// CHECK-NOT:  "second"
// CHECK:      "kind": "temp",
// CHECK-NEXT: "bytes"
// CHECK-NEXT: "first": 2,
// CHECK-NEXT: "last": 4,
// CHECK-NEXT: "name": "third"

// CHECK-LABEL: "regions":
// The second launch reads and writes buffer 2.
// CHECK: "args"
// CHECK: "args"
// CHECK-NEXT: {
// CHECK-NEXT: "buffer": 2,
// CHECK: "buffer": 2,
// CHECK: "args"
