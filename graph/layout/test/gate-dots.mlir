// RUN: knapper-opt --gate-dots %s | FileCheck %s
// RUN: knapper-opt --gate-dots=most-bytes=100 %s | FileCheck %s --check-prefix=LARGE

!h = tensor<2x4xbf16>
!r = tensor<12x4xbf16>
!g = tensor<2x12xbf16>
!b = tensor<2x8xbf16>
!n = tensor<?x4xbf16, #ts.dims<"n", 4>>
!m = tensor<?x12xbf16, #ts.dims<"n", 12>>

module attributes {ts.symbols = [#ts.symbol<"iteration", 0, -1, 1>, #ts.symbol<"n", 1, -1, 1>]} {

// What is in no loop stays.
// CHECK-LABEL: @main
// CHECK: ts.dot
func.func @main(%x: !g, %h: !h, %r: !r) -> (!h, tensor<6x2x4xbf16>, tensor<2x12xbf16>) {
  %0:2 = ts.loop @gru counter "iteration" trips <6> carried(%h : !h) captures(%x, %r : !g, !r) symbols [] reversed [false] to(!h, tensor<6x2x4xbf16>)
  %1 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !h, !r
  %2:2 = ts.loop @whole counter "iteration" trips <6> carried(%h : !h) captures(%r : !r) symbols [] reversed [false] to(!h, tensor<6x2x12xbf16>)
  return %0#0, %0#1, %1 : !h, tensor<6x2x4xbf16>, !g
}

// Each slice of the matmul is a reduction of its rows of %r, in f32; a slice
// of a slice counts from where both begin.
// CHECK-LABEL: func.func private @gru
// CHECK-NOT: ts.dot
// CHECK: ts.slice %arg2 [#ts.dim<0>, #ts.dim<0>] {{.*}} to tensor<4x4xbf16>
// CHECK: ts.reduce add {{.*}} [2] : tensor<2x4x4xf32>
// CHECK: ts.slice %arg2 [#ts.dim<4>, #ts.dim<0>]
// CHECK: ts.reduce add {{.*}} [2] : tensor<2x4x4xf32>
// CHECK: ts.slice %arg2 [#ts.dim<8>, #ts.dim<0>]
// CHECK: ts.reduce add {{.*}} [2] : tensor<2x4x4xf32>
// CHECK-NOT: ts.dot
// CHECK: return
// LARGE-LABEL: func.func private @gru
// LARGE: ts.dot
func.func private @gru(%h: !h, %x: !g, %r: !r) -> (!h, !h) {
  %2 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !h, !r
  %3 = ts.slice %x [#ts.dim<0>, #ts.dim<0>] [1, 1] : !g to !b
  %4 = ts.slice %2 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !g to !b
  %5 = ts.add %3, %4 : !b
  %6 = ts.sigmoid %5 : !b
  %z = ts.slice %6 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !b to !h
  %s = ts.slice %6 [#ts.dim<0>, #ts.dim<4>] [1, 1] : !b to !h
  %7 = ts.slice %2 [#ts.dim<0>, #ts.dim<8>] [1, 1] : !g to !h
  %8 = ts.mul %s, %7 : !h
  %9 = ts.tanh %8 : !h
  %10 = ts.mul %z, %9 : !h
  return %10, %10 : !h, !h
}

// All of the matmul is read.
// CHECK-LABEL: func.func private @whole
// CHECK: ts.dot
func.func private @whole(%h: !h, %r: !r) -> (!h, !g) {
  %0 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !h, !r
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !g to !h
  return %1, %0 : !h, !g
}

// Rows that a run knows: a loop of reductions with few of them (1 MiB / 96
// bytes), no iteration of it else.
// CHECK-LABEL: @rows
// CHECK: %[[FEW:.*]]:2 = ts.loop @step_few counter "iteration" trips <"6*min(1, floordiv(10922, max(1, n)))">
// CHECK: %[[MANY:.*]]:2 = ts.loop @step counter "iteration" trips <"-6*min(1, floordiv(10922, max(1, n))) + 6"> carried(%[[FEW]]#0
// CHECK: %[[ROWS:.*]] = ts.concat %[[FEW]]#1, %[[MANY]]#1 dim 0
// CHECK: return %[[MANY]]#0, %[[ROWS]]
func.func @rows(%h: !n, %r: !r) -> (!n, tensor<6x?x4xbf16, #ts.dims<6, "n", 4>>) {
  %0:2 = ts.loop @step counter "iteration" trips <6> carried(%h : !n) captures(%r : !r) symbols [] reversed [false] to(!n, tensor<6x?x4xbf16, #ts.dims<6, "n", 4>>)
  return %0#0, %0#1 : !n, tensor<6x?x4xbf16, #ts.dims<6, "n", 4>>
}

// CHECK-LABEL: func.func private @step_few
// CHECK-NOT: ts.dot
// CHECK: return
// CHECK-LABEL: func.func private @step(
// CHECK: ts.dot
func.func private @step(%h: !n, %r: !r) -> (!n, !n) {
  %0 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !n, !r
  %1 = ts.slice %0 [#ts.dim<0>, #ts.dim<8>] [1, 1] : !m to !n
  %2 = ts.tanh %1 : !n
  return %2, %2 : !n, !n
}

// A matrix without columns has no gates.
// CHECK-LABEL: @empty
// CHECK: ts.loop @no_columns counter
func.func @empty(%h: !n, %r: tensor<0x4xbf16>) -> !n {
  %0:2 = ts.loop @no_columns counter "iteration" trips <6> carried(%h : !n) captures(%r : tensor<0x4xbf16>) symbols [] reversed [false] to(!n, tensor<6x?x0xbf16, #ts.dims<6, "n", 0>>)
  return %0#0 : !n
}

func.func private @no_columns(%h: !n, %r: tensor<0x4xbf16>) -> (!n, tensor<?x0xbf16, #ts.dims<"n", 0>>) {
  %0 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !n, tensor<0x4xbf16>
  return %h, %0 : !n, tensor<?x0xbf16, #ts.dims<"n", 0>>
}

}
