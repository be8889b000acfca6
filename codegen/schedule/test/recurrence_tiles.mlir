// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s
// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_80 --no-cache | FileCheck %s --check-prefix=SM80

// Loops over the steps of a cell as one kernel.
!h = tensor<3x32xf32>
!r = tensor<64x32xf32>
!x = tensor<9x3x64xf32>
!wide = tensor<3x200xf16>
!wider = tensor<9x3x200xf16>
!matrix = tensor<200x200xf16>
!many = tensor<90000x32xf32>
!more = tensor<9x90000x32xf32>
!square = tensor<32x32xf32>

module attributes {ts.files = ["cells"], ts.symbols = [#ts.symbol<"iteration", 0, -1, 1>]} {
  // Two gates of one matmul, a bias, a sequence that is read backwards.
  // CHECK-LABEL: func.func @main
  // CHECK: ts.kernel scan
  // CHECK-SAME: kind = "gpu_recurrence"{{.*}}rows = 1 : i64, slices = {{[248]}}
  // CHECK: ts.recurrence steps <9>
  // CHECK-SAME: reversed [true]
  // CHECK-SAME: outputs [true]
  // CHECK-COUNT-2: ts.dot {{.*}} : tensor<3x32xf32>, tensor<32x32xf32>
  // CHECK: ts.next
  // The CTAs of a cluster share out the units, where there are clusters.
  // CHECK: kind = "gpu_recurrence"{{.*}}cluster_size = {{[248]}}
  // CHECK: ts.recurrence {{.*}}tensor<200x200xf16>
  // SM80-LABEL: func.func @main
  // SM80: ts.recurrence {{.*}}tensor<9x3x64xf32>
  // SM80: ts.loop @wide
  // More rows than there are CTAs for: a step of its own takes less time.
  // CHECK: ts.loop @many
  // What is multiplied is not the state itself: rows of all units meet twice in a step.
  // CHECK: ts.loop @reset
  // A bias is read where it is added.
  // CHECK-NOT: tensor<3x32xf32>) -> tensor<3x32xf32> {
  func.func @main(%h: !h, %x: !x, %w: !wide, %y: !wider, %m: !many, %z: !more) -> (tensor<9x3x32xf32>, !wider, !more, !h) {
    %0:2 = ts.loop @gates counter "iteration" trips <9> carried(%h : !h) captures(%x : !x) symbols [] reversed [true] to(!h, tensor<9x3x32xf32>)
    %1:2 = ts.loop @wide counter "iteration" trips <9> carried(%w : !wide) captures(%y : !wider) symbols [] reversed [false] to(!wide, !wider)
    %2:2 = ts.loop @many counter "iteration" trips <9> carried(%m : !many) captures(%z : !more) symbols [] reversed [false] to(!many, !more)
    %3 = ts.loop @reset counter "iteration" trips <9> carried(%h : !h) captures() symbols [] reversed [] to(!h)
    return %0#1, %1#1, %2#1, %3 : tensor<9x3x32xf32>, !wider, !more, !h
  }
  func.func private @gates(%h: !h, %x: !x) -> (!h, !h) {
    %r = ts.weight <0, 248192, 8192, "g"> : !r
    %b = ts.constant dense<[0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0]> : tensor<32xf32>
    %0 = ts.slice %x [#ts.dim<"-iteration + 8">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !x to tensor<1x3x64xf32>
    %1 = ts.reshape %0 : tensor<1x3x64xf32> to tensor<3x64xf32>
    %2 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !h, !r
    %3 = ts.add %1, %2 : tensor<3x64xf32>
    %4 = ts.sigmoid %3 : tensor<3x64xf32>
    %z = ts.slice %4 [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<3x64xf32> to !h
    %n = ts.slice %4 [#ts.dim<0>, #ts.dim<32>] [1, 1] : tensor<3x64xf32> to !h
    %5 = ts.broadcast %b [1] : tensor<32xf32> to !h
    %6 = ts.add %n, %5 : !h
    %7 = ts.mul %z, %6 : !h
    %8 = ts.add %7, %h : !h
    return %8, %8 : !h, !h
  }
  func.func private @wide(%h: !wide, %x: !wider) -> (!wide, !wide) {
    %r = ts.weight <0, 0, 80000, "r"> : !matrix
    %s = ts.weight <0, 80000, 80000, "s"> : !matrix
    %t = ts.weight <0, 160000, 80000, "t"> : !matrix
    %0 = ts.slice %x [#ts.dim<"iteration">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !wider to tensor<1x3x200xf16>
    %1 = ts.reshape %0 : tensor<1x3x200xf16> to !wide
    %2 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !wide, !matrix
    %3 = ts.dot %h, %s batch [] x [] contract [1] x [1] : !wide, !matrix
    %4 = ts.dot %h, %t batch [] x [] contract [1] x [1] : !wide, !matrix
    %5 = ts.mul %2, %3 : !wide
    %6 = ts.mul %4, %5 : !wide
    %7 = ts.add %6, %1 : !wide
    %8 = ts.tanh %7 : !wide
    return %8, %8 : !wide, !wide
  }
  func.func private @many(%h: !many, %x: !more) -> (!many, !many) {
    %r = ts.weight <0, 240000, 4096, "m"> : !square
    %0 = ts.slice %x [#ts.dim<"iteration">, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !more to tensor<1x90000x32xf32>
    %1 = ts.reshape %0 : tensor<1x90000x32xf32> to !many
    %2 = ts.dot %h, %r batch [] x [] contract [1] x [1] : !many, !square
    %3 = ts.add %2, %1 : !many
    %4 = ts.tanh %3 : !many
    return %4, %4 : !many, !many
  }
  func.func private @reset(%h: !h) -> !h {
    %r = ts.weight <0, 244096, 4096, "q"> : !square
    %0 = ts.sigmoid %h : !h
    %1 = ts.dot %0, %r batch [] x [] contract [1] x [1] : !h, !square
    %2 = ts.tanh %1 : !h
    return %2 : !h
  }
}
