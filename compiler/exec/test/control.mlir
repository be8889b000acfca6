// RUN: knapper compile %s --start-from=fuse --stop-after=plan | FileCheck %s

// A branch writes where its result is needed, with its own check; an iteration of
// the loop reads a row in place, and writes over the state where it may.
!row = tensor<1x8xf32>
!all = tensor<?x8xf32, #ts.dims<"n", 8>>
module attributes {ts.symbols = [#ts.symbol<"n", 1, -1, 1>, #ts.symbol<"i", 0, -1, 1>]} {
func.func private @yes(%x: !row) -> !row {
  ts.check <"n"> ge <4> "needs four"
  %0 = ts.exp %x : !row
  return %0 : !row
}
func.func private @no(%x: !row) -> !row {
  return %x : !row
}
func.func private @iteration(%h: !row, %x: !all) -> (!row, tensor<8xf32>) {
  %r = ts.slice %x [#ts.dim<"i">, #ts.dim<0>] [1, 1] : !all to !row
  %0 = ts.add %h, %r : !row
  %1 = ts.reshape %0 : !row to tensor<8xf32>
  return %0, %1 : !row, tensor<8xf32>
}
func.func @main(%c: tensor<i1>, %x: !all, %h: !row) -> (!row, !all) {
  %0 = ts.if %c : tensor<i1> then @yes(%h : !row) else @no(%h : !row) symbols [] to (!row)
  %1:2 = ts.loop @iteration counter "i" trips <"n"> carried(%0 : !row) captures(%x : !all) symbols [] reversed [false] to (!row, !all)
  return %1#0, %1#1 : !row, !all
}
}

// CHECK: "name": "i",
// CHECK: "from_buffer": true
// CHECK-LABEL: "regions":
// CHECK:      "instruction_type": "If",
// CHECK:      "then_region": 1,
// CHECK-NEXT: "else_region": 2
// CHECK:      "instruction_type": "Copy",
// CHECK:      "instruction_type": "Repeat",
// CHECK:      "body_region": 3
// CHECK:      "instruction_type": "Copy",
// CHECK:      "instruction_type": "Copy",
// The branches.
// CHECK:      "instruction_type": "Assert",
// CHECK:      "message": "needs four"
// CHECK:      "instruction_type": "Launch",
// CHECK:      "instruction_type": "Copy",
// The iteration: the row is copied from the state.
// CHECK:      "instruction_type": "Launch",
// CHECK:      "instruction_type": "Copy",
// CHECK-NOT:  "instruction_type"
