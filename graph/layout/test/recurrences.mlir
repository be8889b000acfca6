// RUN: knapper compile %s --start-from simplify --stop-after cuda:form-recurrences --target cuda:sm_90a --no-cache | FileCheck %s

!h = tensor<3x32xf32>
!g = tensor<3x64xf32>
!s = tensor<9x3x64xf32>
!o = tensor<9x3x32xf32>
!w = tensor<32x64xf32>
!v = tensor<64x32xf32>
!m = tensor<32x32xf32>

module attributes {ts.files = ["cells"], ts.symbols = [#ts.symbol<"step", 0, -1, 1>]} {
  // Gates are columns of the weights, [K, G * K]; what is added to an element of the sequence is added before its first
  // dim goes.
  // CHECK: ts.recurrence steps <9>
  // CHECK-SAME: reversed [false]
  // CHECK-COUNT-2: ts.dot {{.*}} contract [1] x [0] : tensor<3x32xf32>, tensor<32x32xf32>
  // CHECK: ts.next
  // The weights are on the left, as vmap of `w @ h` has them: the matmul and what is done with its rows are transposed.
  // CHECK: ts.recurrence steps <9>
  // CHECK-SAME: reversed [true]
  // CHECK-COUNT-2: ts.dot {{.*}} contract [1] x [1] : tensor<3x32xf32>, tensor<32x32xf32>
  // CHECK-NOT: ts.transpose
  // CHECK: ts.next
  // Rows of the state meet.
  // CHECK: ts.loop @mixed
  func.func @main(%h: !h, %x: !s, %w: !w, %b: tensor<64xf32>, %v: !v, %c: tensor<32xf32>, %m: !m) -> (!h, !o, !h, !o, !m) {
    %0:2 = ts.loop @columns counter "step" trips <9> carried(%h : !h) captures(%x, %w, %b : !s, !w, tensor<64xf32>) symbols [] reversed [false] to(!h, !o)
    %1:2 = ts.loop @rows counter "step" trips <9> carried(%h : !h) captures(%x, %v, %c : !s, !v, tensor<32xf32>) symbols [] reversed [false] to(!h, !o)
    %2 = ts.loop @mixed counter "step" trips <2> carried(%m : !m) captures(%m : !m) symbols [] reversed [] to(!m)
    return %0#0, %0#1, %1#0, %1#1, %2 : !h, !o, !h, !o, !m
  }
  func.func private @columns(%h: !h, %x: !s, %w: !w, %b: tensor<64xf32>) -> (!h, !h) {
    %0 = ts.slice %x [#ts.dim<"step">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x3x64xf32>
    %1 = ts.broadcast %b [2] : tensor<64xf32> to tensor<1x3x64xf32>
    %2 = ts.add %0, %1 : tensor<1x3x64xf32>
    %3 = ts.mul %2, %2 : tensor<1x3x64xf32>
    %4 = ts.reshape %3 : tensor<1x3x64xf32> to !g
    %5 = ts.dot %h, %w batch [] x [] contract [1] x [0] : !h, !w
    %6 = ts.sub %5, %4 : !g
    %7 = ts.slice %6 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !g to !h
    %8 = ts.slice %6 [#ts.dim<0>, #ts.dim<32>] [1, 1] : !g to !h
    %9 = ts.sigmoid %7 : !h
    %10 = ts.tanh %8 : !h
    %11 = ts.mul %9, %10 : !h
    %12 = ts.add %11, %h : !h
    return %12, %12 : !h, !h
  }
  func.func private @rows(%h: !h, %x: !s, %v: !v, %b: tensor<32xf32>) -> (!h, !h) {
    %0 = ts.slice %x [#ts.dim<"-step + 8">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !s to tensor<1x3x64xf32>
    %1 = ts.reshape %0 : tensor<1x3x64xf32> to !g
    %2 = ts.dot %v, %h batch [] x [] contract [1] x [1] : !v, !h
    %3 = ts.slice %2 [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<64x3xf32> to tensor<32x3xf32>
    %4 = ts.slice %2 [#ts.dim<32>, #ts.dim<0>] [1, 1] : tensor<64x3xf32> to tensor<32x3xf32>
    %5 = ts.broadcast %b [0] : tensor<32xf32> to tensor<32x3xf32>
    %6 = ts.add %4, %5 : tensor<32x3xf32>
    %7 = ts.transpose %3 [1, 0] : tensor<32x3xf32>
    %8 = ts.transpose %6 [1, 0] : tensor<32x3xf32>
    %9 = ts.slice %1 [#ts.dim<0>, #ts.dim<0>] [1, 1] : !g to !h
    %10 = ts.slice %1 [#ts.dim<0>, #ts.dim<32>] [1, 1] : !g to !h
    %11 = ts.add %7, %9 : !h
    %12 = ts.sigmoid %11 : !h
    %13 = ts.add %8, %10 : !h
    %14 = ts.tanh %13 : !h
    %15 = ts.mul %12, %14 : !h
    return %15, %15 : !h, !h
  }
  func.func private @mixed(%h: !m, %w: !m) -> !m {
    %0 = ts.dot %w, %h batch [] x [] contract [1] x [0] : tensor<32x32xf32>, tensor<32x32xf32>
    %1 = ts.transpose %0 [1, 0] : tensor<32x32xf32>
    %2 = ts.tanh %1 : tensor<32x32xf32>
    return %2 : tensor<32x32xf32>
  }
}
