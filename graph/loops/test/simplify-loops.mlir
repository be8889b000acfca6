// RUN: knapper-opt %s --simplify-loops --split-input-file | FileCheck %s

!h = tensor<2x4xf32>
!s = tensor<6x2x4xf32>
!w = tensor<4x4xf32>

// As jax.lax.scan lowers: weights and sequence are carried, an index is clamped
// and each step writes its row. All of that is a matmul before the loop, a
// capture and a scan.
// CHECK-LABEL: func.func @scan
// CHECK: %[[ALL:.*]] = ts.dot %arg0, %arg1 batch [] x [] contract [2] x [0] : tensor<6x2x4xf32>, tensor<4x4xf32>
// CHECK: %[[R:.*]]:2 = ts.loop @scan_step {{.*}} carried(%arg3 : tensor<2x4xf32>) captures(%arg2, %[[ALL]] :
// CHECK-SAME: reversed [false]
// CHECK: return %[[R]]#0, %[[R]]#1, %arg0
func.func @scan(%x: !s, %w: !w, %r: !w, %h: !h, %y: !s) -> (!h, !s, !s) {
  %0:5 = ts.loop @scan_step counter "step" trips <6> carried(%x, %w, %r, %h, %y : !s, !w, !w, !h, !s) captures() symbols [] reversed [] to(!s, !w, !w, !h, !s)
  return %0#3, %0#4, %0#0 : !h, !s, !s
}

// CHECK-LABEL: func.func private @scan_step
// CHECK-SAME: (%arg0: tensor<2x4xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<6x2x4xf32>)
// CHECK: ts.slice %arg2 [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>]
// CHECK: ts.dot
// CHECK-NOT: ts.dot
// CHECK-NOT: ts.scatter_nd
func.func private @scan_step(%x: !s, %w: !w, %r: !w, %h: !h, %y: !s) -> (!s, !w, !w, !h, !s) {
  %zero = ts.constant dense<0> : tensor<i64>
  %last = ts.constant dense<5> : tensor<i64>
  %i = ts.size <"step"> : tensor<i64>
  %0 = ts.max %i, %zero : tensor<i64>
  %1 = ts.min %0, %last : tensor<i64>
  %at = ts.reshape %1 : tensor<i64> to tensor<1xi64>
  %place = ts.reshape %1 : tensor<i64> to tensor<1x1xi64>
  %2 = ts.gather %x, %at dim 0 : !s, tensor<1xi64>
  %3 = ts.reshape %2 : tensor<1x2x4xf32> to !h
  %4 = ts.dot %3, %w batch [] x [] contract [1] x [0] : !h, !w
  %5 = ts.dot %h, %r batch [] x [] contract [1] x [0] : !h, !w
  %6 = ts.add %4, %5 : !h
  %7 = ts.tanh %6 : !h
  %8 = ts.reshape %7 : !h to tensor<1x2x4xf32>
  %9 = ts.scatter_nd %y, %place, %8 : !s, tensor<1x1xi64>, tensor<1x2x4xf32>
  return %x, %w, %r, %7, %9 : !s, !w, !w, !h, !s
}

// -----

!h = tensor<2x4xf32>
!s = tensor<6x2x4xf32>
!w = tensor<4x4xf32>

// Its gradient goes the other way: gradients of weights are added up by one
// matmul of all steps, those of a bias by one sum.
// CHECK-LABEL: func.func @gradients
// CHECK: %[[R:.*]]:2 = ts.loop @gradients_step {{.*}} captures(%arg1, %arg2 :
// CHECK-SAME: reversed [true]
// CHECK: %[[W:.*]] = ts.dot %arg0, %[[R]]#1 batch [] x [] contract [0, 1] x [0, 1]
// CHECK: %[[DW:.*]] = ts.add %arg4, %[[W]]
// CHECK: %[[B:.*]] = ts.reduce add %[[R]]#1 [0]
// CHECK: %[[COLUMNS:.*]] = ts.reduce add %[[B]] [0]
// CHECK: %[[DB:.*]] = ts.add %arg5, %[[COLUMNS]]
// CHECK: return %[[R]]#0, %[[DW]], %[[DB]]
func.func @gradients(%x: !s, %g: !s, %r: !w, %h: !h, %dw: !w, %db: tensor<4xf32>) -> (!h, !w, tensor<4xf32>) {
  %0:3 = ts.loop @gradients_step counter "step" trips <6> carried(%h, %dw, %db : !h, !w, tensor<4xf32>) captures(%x, %g, %r : !s, !s, !w) symbols [] reversed [] to(!h, !w, tensor<4xf32>)
  return %0#0, %0#1, %0#2 : !h, !w, tensor<4xf32>
}

// CHECK-LABEL: func.func private @gradients_step
// CHECK: ts.slice %arg1 [#ts.dim<"-step + 5">
// CHECK: ts.dot
// CHECK-NOT: ts.dot
func.func private @gradients_step(%h: !h, %dw: !w, %db: tensor<4xf32>, %x: !s, %g: !s, %r: !w) -> (!h, !w, tensor<4xf32>) {
  %0 = ts.slice %x [#ts.dim<"5 - step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %1 = ts.reshape %0 : tensor<1x2x4xf32> to !h
  %2 = ts.slice %g [#ts.dim<"5 - step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %3 = ts.reshape %2 : tensor<1x2x4xf32> to !h
  %4 = ts.add %h, %3 : !h
  %5 = ts.dot %1, %4 batch [] x [] contract [0] x [0] : !h, !h
  %6 = ts.add %dw, %5 : !w
  %7 = ts.reduce add %4 [0] : !h
  %8 = ts.add %7, %db : tensor<4xf32>
  %9 = ts.dot %4, %r batch [] x [] contract [1] x [1] : !h, !w
  return %9, %6, %8 : !h, !w, tensor<4xf32>
}

// -----

!h = tensor<2x4xf32>
!s = tensor<6x2x4xf32>
!w = tensor<4x4xf32>

// What no step changes; chains of steps' values; sides and batches of matmuls.
// CHECK-LABEL: func.func @before
// CHECK-DAG: %[[T:.*]] = ts.transpose %arg1 [1, 0]
// CHECK-DAG: %[[RELU:.*]] = ts.max %arg0
// CHECK-DAG: ts.dot %[[RELU]], %[[T]] batch [] x [] contract [2] x [0]
// CHECK-DAG: %[[LEFT:.*]] = ts.dot %arg1, %arg0 batch [] x [] contract [0] x [2]
// CHECK-DAG: ts.transpose %[[LEFT]] [1, 0, 2]
// CHECK-DAG: ts.dot %arg0, %arg0 batch [0] x [0] contract [2] x [2]
// CHECK: ts.loop @before_step
// CHECK-LABEL: func.func private @before_step
// CHECK-NOT: ts.dot
func.func @before(%x: !s, %w: !w, %h: !h) -> (!h, tensor<4x2xf32>, tensor<2x2xf32>) {
  %a = ts.constant dense<0.0> : tensor<4x2xf32>
  %b = ts.constant dense<0.0> : tensor<2x2xf32>
  %0:3 = ts.loop @before_step counter "step" trips <6> carried(%h, %a, %b : !h, tensor<4x2xf32>, tensor<2x2xf32>) captures(%x, %w : !s, !w) symbols [] reversed [] to(!h, tensor<4x2xf32>, tensor<2x2xf32>)
  return %0#0, %0#1, %0#2 : !h, tensor<4x2xf32>, tensor<2x2xf32>
}
func.func private @before_step(%h: !h, %a: tensor<4x2xf32>, %b: tensor<2x2xf32>, %x: !s, %w: !w) -> (!h, tensor<4x2xf32>, tensor<2x2xf32>) {
  %zero = ts.constant dense<0.0> : tensor<f32>
  %zeros = ts.broadcast %zero [] : tensor<f32> to !h
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %1 = ts.reshape %0 : tensor<1x2x4xf32> to !h
  %2 = ts.max %1, %zeros : !h
  %3 = ts.transpose %w [1, 0] : !w
  %4 = ts.dot %2, %3 batch [] x [] contract [1] x [0] : !h, !w
  %5 = ts.mul %h, %4 : !h
  %6 = ts.dot %w, %1 batch [] x [] contract [0] x [1] : !w, !h
  %7 = ts.max %a, %6 : tensor<4x2xf32>
  %8 = ts.dot %1, %1 batch [] x [] contract [1] x [1] : !h, !h
  %9 = ts.max %b, %8 : tensor<2x2xf32>
  return %5, %7, %9 : !h, tensor<4x2xf32>, tensor<2x2xf32>
}

// -----

!h = tensor<2x4xf32>
!s = tensor<6x2x4xf32>

// Rows that a step reads, rows of other places, fewer rows than there are, and
// what is added to rows stay as they are.
// CHECK-LABEL: func.func @stay
// CHECK: ts.loop @stay_step {{.*}} carried(%arg1, %arg2, %arg3, %arg4, %arg5 :
// CHECK-LABEL: func.func private @stay_step
// CHECK-COUNT-4: ts.scatter_nd
func.func @stay(%h: !h, %a: !s, %b: !s, %c: tensor<7x2x4xf32>, %d: !s, %e: !h) -> (!s, !s, tensor<7x2x4xf32>, !s, !h) {
  %0:5 = ts.loop @stay_step counter "step" trips <6> carried(%a, %b, %c, %d, %e : !s, !s, tensor<7x2x4xf32>, !s, !h) captures(%h : !h) symbols [] reversed [] to(!s, !s, tensor<7x2x4xf32>, !s, !h)
  return %0#0, %0#1, %0#2, %0#3, %0#4 : !s, !s, tensor<7x2x4xf32>, !s, !h
}
func.func private @stay_step(%a: !s, %b: !s, %c: tensor<7x2x4xf32>, %d: !s, %e: !h, %h: !h) -> (!s, !s, tensor<7x2x4xf32>, !s, !h) {
  %one = ts.constant dense<1> : tensor<i64>
  %last = ts.constant dense<4> : tensor<i64>
  %i = ts.size <"step"> : tensor<i64>
  %at = ts.reshape %i : tensor<i64> to tensor<1x1xi64>
  %short = ts.min %i, %last : tensor<i64>
  %place = ts.reshape %short : tensor<i64> to tensor<1x1xi64>
  %u = ts.add %e, %h : !h
  %v = ts.reshape %u : !h to tensor<1x2x4xf32>
  %0 = ts.scatter_nd %a, %at, %v : !s, tensor<1x1xi64>, tensor<1x2x4xf32>
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %2 = ts.reshape %1 : tensor<1x2x4xf32> to !h
  %3 = ts.scatter_nd %b, %place, %v : !s, tensor<1x1xi64>, tensor<1x2x4xf32>
  %4 = ts.scatter_nd %c, %at, %v : tensor<7x2x4xf32>, tensor<1x1xi64>, tensor<1x2x4xf32>
  %5 = ts.scatter_nd %d, %at, %v {reduction = #ts<reduce_kind add>} : !s, tensor<1x1xi64>, tensor<1x2x4xf32>
  return %0, %3, %4, %5, %2 : !s, !s, tensor<7x2x4xf32>, !s, !h
}

// -----

!h = tensor<200x4xf32>
!s = tensor<6x200x4xf32>
!w = tensor<4x4xf32>

// Matmuls of many rows and sums of many products are fast on their own, and
// what they make of a step's rows is not there for all steps; a sum that reads
// the same operands in each step stays as well.
// CHECK-LABEL: func.func @large
// CHECK-NOT: ts.dot
// CHECK: ts.loop @large_step
// CHECK-NOT: ts.dot
// CHECK-LABEL: func.func private @large_step
// CHECK-COUNT-4: ts.dot
func.func @large(%x: !s, %w: !w) -> (!w, !w, !w) {
  %0:3 = ts.loop @large_step counter "step" trips <6> carried(%w, %w, %w : !w, !w, !w) captures(%x, %w : !s, !w) symbols [] reversed [] to(!w, !w, !w)
  return %0#0, %0#1, %0#2 : !w, !w, !w
}
func.func private @large_step(%a: !w, %b: !w, %c: !w, %x: !s, %w: !w) -> (!w, !w, !w) {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x200x4xf32>
  %1 = ts.reshape %0 : tensor<1x200x4xf32> to !h
  %2 = ts.dot %1, %w batch [] x [] contract [1] x [0] : !h, !w
  %3 = ts.dot %2, %1 batch [] x [] contract [0] x [0] : !h, !h
  %4 = ts.add %a, %3 : !w
  %5 = ts.dot %w, %a batch [] x [] contract [0] x [0] : !w, !w
  %6 = ts.add %b, %5 : !w
  %7 = ts.dot %1, %1 batch [] x [] contract [0] x [0] : !h, !h
  %8 = ts.max %c, %7 : !w
  return %4, %6, %8 : !w, !w, !w
}

// -----

!h = tensor<?x4xf32, #ts.dims<"n", 4>>
!s = tensor<?x?x4xf32, #ts.dims<"t", "n", 4>>
!w = tensor<4x4xf32>

// Any number of steps. Rows are not known to be few; results of one row are.
// CHECK-LABEL: func.func @symbolic
// CHECK: %[[ALL:.*]] = ts.dot %arg3, %arg1 batch [] x [] contract [1] x [0]
// CHECK: ts.loop @symbolic_step {{.*}} carried(%arg2 : {{.*}}) captures(%arg0, %arg1, %[[ALL]] :
// CHECK-LABEL: func.func private @symbolic_step
// CHECK-COUNT-1: ts.dot
// CHECK-NOT: ts.dot
func.func @symbolic(%x: !s, %w: !w, %h: !h, %v: tensor<?x4xf32, #ts.dims<"t", 4>>) -> !h {
  %0:3 = ts.loop @symbolic_step counter "step" trips <"t"> carried(%h, %w, %h : !h, !w, !h) captures(%x, %v : !s, tensor<?x4xf32, #ts.dims<"t", 4>>) symbols [] reversed [] to(!h, !w, !h)
  return %0#0 : !h
}
func.func private @symbolic_step(%h: !h, %w: !w, %unused: !h, %x: !s, %v: tensor<?x4xf32, #ts.dims<"t", 4>>) -> (!h, !w, !h) {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x?x4xf32, #ts.dims<1, "n", 4>>
  %1 = ts.reshape %0 : tensor<1x?x4xf32, #ts.dims<1, "n", 4>> to !h
  %2 = ts.dot %1, %w batch [] x [] contract [1] x [0] : !h, !w
  %3 = ts.slice %v [#ts.dim<"step">, #ts.dim<0>] [1, 1] : tensor<?x4xf32, #ts.dims<"t", 4>> to tensor<1x4xf32>
  %4 = ts.reshape %3 : tensor<1x4xf32> to tensor<4xf32>
  %5 = ts.dot %4, %w batch [] x [] contract [0] x [0] : tensor<4xf32>, !w
  %6 = ts.broadcast %5 [1] : tensor<4xf32> to !h
  %7 = ts.add %2, %6 : !h
  %8 = ts.add %h, %7 : !h
  %9 = ts.mul %unused, %7 : !h
  return %8, %w, %9 : !h, !w, !h
}

// -----

// What data ends stays as it is.
// CHECK-LABEL: func.func @while
// CHECK: ts.loop @while_step {{.*}} carried(%arg0, %arg1 :
func.func @while(%x: tensor<f32>, %y: tensor<f32>, %c: tensor<i1>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = ts.loop @while_step counter "step" while %c : tensor<i1> carried(%x, %y : tensor<f32>, tensor<f32>) captures() symbols [] reversed [] to(tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
func.func private @while_step(%x: tensor<f32>, %y: tensor<f32>) -> (tensor<i1>, tensor<f32>, tensor<f32>) {
  %0 = ts.mul %x, %x : tensor<f32>
  %1 = ts.compare lt %0, %y : tensor<f32>
  return %1, %0, %y : tensor<i1>, tensor<f32>, tensor<f32>
}

// -----

!v = tensor<4xf32>
!s = tensor<6x4xf32>

// Rows that the body returns as they are.
// CHECK-LABEL: func.func private @returned_step
// CHECK: ts.slice
// CHECK-NOT: ts.gather
func.func @returned(%x: !s, %h: !v) -> (!v, !s, !s) {
  %0:3 = ts.loop @returned_step counter "step" trips <6> carried(%h : !v) captures(%x : !s) symbols [] reversed [false, true] to(!v, !s, !s)
  return %0#0, %0#1, %0#2 : !v, !s, !s
}
func.func private @returned_step(%h: !v, %x: !s) -> (!v, !v, !v) {
  %i = ts.size <"step"> : tensor<i64>
  %0 = ts.gather %x, %i dim 0 : !s, tensor<i64>
  %1 = ts.add %0, %h : !v
  return %0, %1, %0 : !v, !v, !v
}

// -----

!w = tensor<8x8xf32>

// A sum does not leave the loop whose checks would go with it.
// CHECK-LABEL: func.func @checked
// CHECK-NOT: ts.dot
// CHECK: ts.loop @checked_step
// CHECK-NOT: ts.dot
// CHECK-LABEL: func.func private @checked_step
// CHECK: ts.check
// CHECK: ts.dot
func.func @checked(%x: tensor<6x1x8xf32>, %w: !w, %y: tensor<?xf32, #ts.dims<"n">>) -> !w {
  %0 = ts.loop @checked_step counter "step" trips <6> carried(%w : !w) captures(%x : tensor<6x1x8xf32>) symbols [] reversed [] to(!w)
  return %0 : !w
}
func.func private @checked_step(%a: !w, %x: tensor<6x1x8xf32>) -> !w {
  ts.check <0> le <"n"> "too short"
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : tensor<6x1x8xf32> to tensor<1x1x8xf32>
  %1 = ts.reshape %0 : tensor<1x1x8xf32> to tensor<1x8xf32>
  %2 = ts.dot %1, %1 batch [] x [] contract [0] x [0] : tensor<1x8xf32>, tensor<1x8xf32>
  %3 = ts.add %a, %2 : !w
  return %3 : !w
}

// -----

!h = tensor<64xf32>
!v = tensor<?x4xf32, #ts.dims<"n", 4>>

// Elementwise ops are computed where they are read, however large what they
// make; a matmul before the loop reads no element that may be outside.
// CHECK-LABEL: func.func @in_place
// CHECK-NEXT: %{{.*}} = ts.loop
// CHECK-LABEL: func.func private @in_place_step
// CHECK: ts.abs
// CHECK: ts.reduce
// CHECK: ts.dot
func.func @in_place(%h: !h, %v: !h, %x: !v) -> !h {
  %0 = ts.loop @in_place_step counter "step" trips <"n"> carried(%h : !h) captures(%v, %x : !h, !v) symbols [] reversed [] to(!h)
  return %0 : !h
}
func.func private @in_place_step(%h: !h, %v: !h, %x: !v) -> !h {
  %0 = ts.broadcast %v [0] : !h to tensor<64x64xf32>
  %1 = ts.broadcast %v [1] : !h to tensor<64x64xf32>
  %2 = ts.sub %0, %1 : tensor<64x64xf32>
  %3 = ts.abs %2 : tensor<64x64xf32>
  %4 = ts.broadcast %h [1] : !h to tensor<64x64xf32>
  %5 = ts.mul %3, %4 : tensor<64x64xf32>
  %6 = ts.reduce max %5 [1] : tensor<64x64xf32>
  %7 = ts.slice %x [#ts.dim<"n - 1">, #ts.dim<0>] [1, 1] : !v to tensor<1x4xf32>
  %8 = ts.dot %7, %7 batch [] x [] contract [0, 1] x [0, 1] : tensor<1x4xf32>, tensor<1x4xf32>
  %9 = ts.broadcast %8 [] : tensor<f32> to !h
  %10 = ts.mul %6, %9 : !h
  return %10 : !h
}

// -----

!v = tensor<2x4xf32>
!s = tensor<6x2x4xf32>

// What is a scan already is read by the sum.
// CHECK-LABEL: func.func @scanned
// CHECK: %[[R:.*]]:3 = ts.loop @scanned_step {{.*}} reversed [true, true]
// CHECK: ts.dot %[[R]]#1, %[[R]]#2 batch [] x [] contract [0, 1] x [0, 1]
func.func @scanned(%h: !v, %w: tensor<4x4xf32>) -> (!v, tensor<4x4xf32>, !s) {
  %0:3 = ts.loop @scanned_step counter "step" trips <6> carried(%h, %w : !v, tensor<4x4xf32>) captures() symbols [] reversed [true] to(!v, tensor<4x4xf32>, !s)
  return %0#0, %0#1, %0#2 : !v, tensor<4x4xf32>, !s
}
func.func private @scanned_step(%h: !v, %w: tensor<4x4xf32>) -> (!v, tensor<4x4xf32>, !v) {
  %0 = ts.tanh %h : !v
  %1 = ts.dot %h, %0 batch [] x [] contract [0] x [0] : !v, !v
  %2 = ts.add %w, %1 : tensor<4x4xf32>
  return %0, %2, %h : !v, tensor<4x4xf32>, !v
}

// -----

!h = tensor<2x4xf32>
!s = tensor<2x2x4xf32>
!w = tensor<4x12xf32>

// The sequence's part of a matmul of both is computed before the loop.
// CHECK-LABEL: func.func @beside
// CHECK: %[[X:.*]] = ts.slice %arg1 [#ts.dim<0>, #ts.dim<4>] [1, 1] : tensor<4x12xf32> to tensor<4x4xf32>
// CHECK: %[[ALL:.*]] = ts.dot %arg0, %[[X]] batch [] x [] contract [2] x [1]
// CHECK: ts.loop @beside_step
// CHECK-LABEL: func.func private @beside_step
// CHECK-COUNT-2: ts.dot
// CHECK-NOT: ts.dot
func.func @beside(%x: !s, %w: !w, %h: !h) -> !h {
  %0 = ts.loop @beside_step counter "step" trips <2> carried(%h : !h) captures(%x, %w : !s, !w) symbols [] reversed [] to(!h)
  return %0 : !h
}
func.func private @beside_step(%h: !h, %x: !s, %w: !w) -> !h {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %1 = ts.reshape %0 : tensor<1x2x4xf32> to !h
  %2 = ts.tanh %h : !h
  %3 = ts.concat %h, %1, %2 dim 1 : !h, !h, !h
  %4 = ts.dot %3, %w batch [] x [] contract [1] x [1] : tensor<2x12xf32>, !w
  %5 = ts.tanh %4 : !h
  return %5 : !h
}

// -----

!h = tensor<2x4xf32>
!s = tensor<6x2x1xf32>
!w = tensor<5x64xf32>

// One column of the sequence would make 64 of them: one matmul a step.
// CHECK-LABEL: func.func private @narrow_step
// CHECK: ts.concat
// CHECK: ts.dot {{.*}} : tensor<2x5xf32>, tensor<5x64xf32>
func.func @narrow(%x: !s, %w: !w, %h: !h) -> !h {
  %0 = ts.loop @narrow_step counter "step" trips <6> carried(%h : !h) captures(%x, %w : !s, !w) symbols [] reversed [] to(!h)
  return %0 : !h
}
func.func private @narrow_step(%h: !h, %x: !s, %w: !w) -> !h {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x1xf32>
  %1 = ts.reshape %0 : tensor<1x2x1xf32> to tensor<2x1xf32>
  %2 = ts.concat %h, %1 dim 1 : !h, tensor<2x1xf32>
  %3 = ts.dot %2, %w batch [] x [] contract [1] x [0] : tensor<2x5xf32>, !w
  %4 = ts.slice %3 [#ts.dim<0>, #ts.dim<8>] [1, 1] : tensor<2x64xf32> to !h
  %5 = ts.tanh %4 : !h
  return %5 : !h
}

// -----

!h = tensor<2x4xf32>
!w = tensor<4x4xf32>

// A value whose result nobody reads decides what another one becomes: it stays,
// with the capture that it reads.
// CHECK-LABEL: func.func @through
// CHECK: ts.loop @through_step {{.*}} carried(%arg0, %arg1 : tensor<2x4xf32>, tensor<2x4xf32>) captures(%arg2 : tensor<2x4xf32>)
// CHECK-LABEL: func.func private @through_step
// CHECK-SAME: (%arg0: tensor<2x4xf32>, %arg1: tensor<2x4xf32>, %arg2: tensor<2x4xf32>)
func.func @through(%a: !h, %b: !h, %c: !h) -> !h {
  %0:2 = ts.loop @through_step counter "step" trips <6> carried(%a, %b : !h, !h) captures(%c : !h) symbols [] reversed [] to(!h, !h)
  return %0#0 : !h
}
func.func private @through_step(%a: !h, %b: !h, %c: !h) -> (!h, !h) {
  %0 = ts.mul %a, %b : !h
  %1 = ts.mul %b, %c : !h
  return %0, %1 : !h, !h
}

// -----

!h = tensor<2x4xf32>
!s = tensor<6x2x4xf32>
!w = tensor<4x4xf32>

// One side of the matmul is read from the first row on, the other from the last:
// rows of all steps do not belong together, so each step adds its own.
// CHECK-LABEL: func.func @opposite
// CHECK-NOT: ts.dot
// CHECK: ts.loop @opposite_step
// CHECK-NOT: ts.dot
// CHECK-LABEL: func.func private @opposite_step
// CHECK: ts.dot
func.func @opposite(%x: !s, %g: !s, %w: !w) -> !w {
  %0 = ts.loop @opposite_step counter "step" trips <6> carried(%w : !w) captures(%x, %g : !s, !s) symbols [] reversed [] to(!w)
  return %0 : !w
}
func.func private @opposite_step(%w: !w, %x: !s, %g: !s) -> !w {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %1 = ts.reshape %0 : tensor<1x2x4xf32> to !h
  %2 = ts.slice %g [#ts.dim<"5 - step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf32>
  %3 = ts.reshape %2 : tensor<1x2x4xf32> to !h
  %4 = ts.dot %1, %3 batch [] x [] contract [0] x [0] : !h, !h
  %5 = ts.add %w, %4 : !w
  return %5 : !w
}

// -----

!v = tensor<3x2x4xf32>
!r = tensor<3x4x5xf32>
!s = tensor<6x3x4x5xf32>
!y = tensor<3x2x5xf32>

// Matmuls in a batch whose right side alone changes: behind batch and rows of
// the left side stand the steps, which come first.
// CHECK-LABEL: func.func @batched
// CHECK: %[[D:.*]] = ts.dot %arg1, %arg2 batch [0] x [1] contract [2] x [2] : tensor<3x2x4xf32>, tensor<6x3x4x5xf32>
// CHECK: ts.transpose %[[D]] [2, 0, 1, 3] : tensor<3x2x6x5xf32>
// CHECK: ts.loop @batched_step
func.func @batched(%h: !y, %w: !v, %x: !s) -> !y {
  %0 = ts.loop @batched_step counter "step" trips <6> carried(%h : !y) captures(%w, %x : !v, !s) symbols [] reversed [] to(!y)
  return %0 : !y
}
func.func private @batched_step(%h: !y, %w: !v, %x: !s) -> !y {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1, 1] : !s to tensor<1x3x4x5xf32>
  %1 = ts.reshape %0 : tensor<1x3x4x5xf32> to !r
  %2 = ts.dot %w, %1 batch [0] x [0] contract [2] x [1] : !v, !r
  %3 = ts.mul %h, %2 : !y
  %4 = ts.tanh %3 : !y
  return %4 : !y
}

// -----

!h = tensor<4xf16>
!s = tensor<6x2x4xf16>

// Rows of f16 that cancel in a step may overflow where all steps' are added up
// first: each step adds its own.
// CHECK-LABEL: func.func @cancelling
// CHECK: ts.loop @cancelling_step {{.*}} carried(%arg0
// CHECK-NOT: ts.add
// CHECK: return
func.func @cancelling(%h: !h, %x: !s, %y: !h) -> (!h, !h) {
  %0:2 = ts.loop @cancelling_step counter "step" trips <6> carried(%h, %y : !h, !h) captures(%x : !s) symbols [] reversed [] to(!h, !h)
  return %0#0, %0#1 : !h, !h
}
func.func private @cancelling_step(%h: !h, %y: !h, %x: !s) -> (!h, !h) {
  %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x2x4xf16>
  %1 = ts.reshape %0 : tensor<1x2x4xf16> to tensor<2x4xf16>
  %2 = ts.reduce add %1 [0] : tensor<2x4xf16>
  %3 = ts.add %h, %2 : !h
  %4 = ts.tanh %y : !h
  return %3, %4 : !h, !h
}
