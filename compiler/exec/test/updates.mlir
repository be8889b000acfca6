// RUN: knapper compile %s --start-from=schedule --stop-after=plan | FileCheck %s

// A cache written twice, returned, and returned once more: one copy of the
// input, into the output, which both kernels then update; one copy of that.
!c = tensor<2x?x8xf32, #ts.dims<2, "room", 8>>
!u = tensor<2x1x8xf32>
!i = tensor<2x1x8xi64>
module attributes {ts.symbols = [#ts.symbol<"room", 1, -1, 1>]} {
func.func @main(%past: !c, %i: !i, %u: !u) -> (!c, !c) {
  %once = ts.kernel scatter (%a = %past : !c, %b = %i : !i, %d = %u : !u) -> !c {
    %0 = ts.scatter_elements %a, %b, %d dim 1 : !c, !i, !u
    ts.yield %0 : !c
  } loc("once")
  %twice = ts.kernel scatter (%a = %once : !c, %b = %i : !i, %d = %u : !u) -> !c {
    %0 = ts.scatter_elements %a, %b, %d dim 1 : !c, !i, !u
    ts.yield %0 : !c
  } loc("twice")
  return %twice, %twice : !c, !c
}
}

// Buffers: three inputs, the first output, the second; no temporary.
// CHECK-LABEL: "buffers":
// CHECK-NOT:   "temp"

// CHECK-LABEL: "regions":
// CHECK:      "instruction_type": "Copy",
// CHECK:      "source": {
// CHECK-NEXT: "buffer": 0,
// CHECK:      "target": {
// CHECK-NEXT: "buffer": 3,
// CHECK:      "instruction_type": "Launch",
// CHECK:      "args": [
// CHECK-NEXT: {
// CHECK-NEXT: "buffer": 3,
// CHECK:      "buffer": 1,
// CHECK:      "buffer": 2,
// CHECK:      "buffer": 3,
// CHECK:      "instruction_type": "Launch",
// CHECK:      "args": [
// CHECK-NEXT: {
// CHECK-NEXT: "buffer": 3,
// CHECK:      "instruction_type": "Copy",
// CHECK:      "source": {
// CHECK-NEXT: "buffer": 3,
// CHECK:      "target": {
// CHECK-NEXT: "buffer": 4,

// CHECK-LABEL: "in_place": [
// CHECK-NEXT: {
// CHECK-NEXT: "output": 0,
// CHECK-NEXT: "input": 0
// CHECK-NEXT: }
// CHECK-NEXT: ]
