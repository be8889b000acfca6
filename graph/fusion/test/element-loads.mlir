// RUN: knapper-opt %s --form-kernels --split-input-file | FileCheck %s
// What the cost of an element by itself decides, loaded or stored.

// Linear resizing: the rows between two rows are made once, the columns read
// them. In one kernel each element would be four loads of one element.
// CHECK-LABEL: @resized
// CHECK: ts.kernel gather
// CHECK-COUNT-2: ts.gather {{.*}} dim 1
// CHECK: ts.kernel gather
// CHECK-COUNT-2: ts.gather {{.*}} dim 2
!x = tensor<64x32x128xf32>
!m = tensor<64x64x128xf32>
!y = tensor<64x64x256xf32>
func.func @resized(%x: !x, %top: tensor<64xi64>, %bottom: tensor<64xi64>,
                   %down: !m, %left: tensor<256xi64>, %right: tensor<256xi64>,
                   %across: !y) -> !y {
  %0 = ts.gather %x, %top dim 1 : !x, tensor<64xi64>
  %1 = ts.gather %x, %bottom dim 1 : !x, tensor<64xi64>
  %2 = ts.mul %1, %down : !m
  %3 = ts.add %0, %2 : !m
  %4 = ts.gather %3, %left dim 2 : !m, tensor<256xi64>
  %5 = ts.gather %3, %right dim 2 : !m, tensor<256xi64>
  %6 = ts.mul %5, %across : !y
  %7 = ts.add %4, %6 : !y
  return %7 : !y
}

// -----

// A norm reads its rows several times: what is gathered for it is made once.
// CHECK-LABEL: @gathered_norm
// CHECK: ts.kernel gather
// CHECK: ts.gather
// CHECK: ts.gather
// CHECK: ts.kernel reduce
// CHECK: return
!x = tensor<400x300xf32>
!y = tensor<400x500xf32>
func.func @gathered_norm(%x: !x, %left: tensor<500xi64>,
                         %right: tensor<500xi64>,
                         %far: tensor<500xi64>) -> !y {
  %0 = ts.gather %x, %left dim 1 : !x, tensor<500xi64>
  %1 = ts.gather %x, %right dim 1 : !x, tensor<500xi64>
  %2 = ts.gather %x, %far dim 1 : !x, tensor<500xi64>
  %3 = ts.add %0, %1 : !y
  %4 = ts.add %3, %2 : !y
  %5 = ts.softmax %4 dim 1 : !y
  return %5 : !y
}

// -----

// Rows whose place takes arithmetic: it is scalar in the kernel that reads
// them, so it is done before, a register of places at a time.
// CHECK-LABEL: @computed_places
// CHECK: ts.kernel pointwise
// CHECK: ts.tanh
// CHECK: ts.kernel reduce
// CHECK-NOT: ts.tanh
// CHECK: ts.gather
!x = tensor<4000x32xf32>
!p = tensor<20000x16xf32>
!i = tensor<20000x16xi64>
!g = tensor<20000x16x32xf32>
func.func @computed_places(%x: !x, %at: !p) -> tensor<20000x32xf32> {
  %0 = ts.exp %at : !p
  %1 = ts.tanh %0 : !p
  %2 = ts.mul %1, %at : !p
  %3 = ts.floor %2 : !p
  %4 = ts.convert %3 : !p to !i
  %5 = ts.gather %x, %4 dim 0 : !x, !i
  %6 = ts.reduce add %5 [1] : !g
  return %6 : tensor<20000x32xf32>
}

// -----

// Planes of 64 x 64 elements lie 16384 bytes apart. The features of a pixel
// would push each other out of the cache: a kernel that moves blocks stores them.
// CHECK-LABEL: @planes_in_one_set
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.transpose
// CHECK: ts.add
// CHECK: ts.kernel transpose
// CHECK: ts.transpose
!x = tensor<1x4096x64xf32>
!y = tensor<1x64x4096xf32>
func.func @planes_in_one_set(%x: !x, %w: tensor<64x64xf32>, %z: !x) -> !y {
  %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : !x, tensor<64x64xf32>
  %1 = ts.add %0, %z : !x
  %2 = ts.transpose %1 [0, 2, 1] : !x
  return %2 : !y
}

// -----

// Other planes, and few features, are stored where they belong.
// CHECK-LABEL: @planes_in_many_sets
// CHECK: ts.kernel matmul
// CHECK: ts.transpose
// CHECK: ts.kernel matmul
// CHECK: ts.transpose
// CHECK-NOT: ts.kernel
// CHECK: return
!x = tensor<1x3136x64xf32>
!y = tensor<1x64x3136xf32>
!u = tensor<1x4096x64xf32>
!v = tensor<1x8x4096xf32>
func.func @planes_in_many_sets(%x: !x, %w: tensor<64x64xf32>, %u: !u,
                               %f: tensor<64x8xf32>) -> (!y, !v) {
  %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : !x, tensor<64x64xf32>
  %1 = ts.transpose %0 [0, 2, 1] : !x
  %2 = ts.dot %u, %f batch [] x [] contract [2] x [0] : !u, tensor<64x8xf32>
  %3 = ts.transpose %2 [0, 2, 1] : tensor<1x4096x8xf32>
  return %1, %3 : !y, !v
}

// -----

// Planes of 1024 bytes lie in four sets: 32 features find room there.
// CHECK-LABEL: @planes_in_four_sets
// CHECK: ts.kernel matmul
// CHECK: ts.transpose
// CHECK-NOT: ts.kernel
// CHECK-LABEL: @too_many_planes_in_four_sets
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.transpose
// CHECK: ts.kernel transpose
func.func @planes_in_four_sets(%x: tensor<8x256x32xf32>, %w: tensor<32x32xf32>) -> tensor<8x32x256xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : tensor<8x256x32xf32>, tensor<32x32xf32>
  %1 = ts.transpose %0 [0, 2, 1] : tensor<8x256x32xf32>
  return %1 : tensor<8x32x256xf32>
}
func.func @too_many_planes_in_four_sets(%x: tensor<8x256x64xf32>, %w: tensor<64x64xf32>) -> tensor<8x64x256xf32> {
  %0 = ts.dot %x, %w batch [] x [] contract [2] x [0] : tensor<8x256x64xf32>, tensor<64x64xf32>
  %1 = ts.transpose %0 [0, 2, 1] : tensor<8x256x64xf32>
  return %1 : tensor<8x64x256xf32>
}

// -----

// A border that repeats elements: what costs more than a few operations is
// computed once, before it.
// CHECK-LABEL: @border
// CHECK: ts.kernel
// CHECK: ts.gelu
// CHECK: ts.kernel
// CHECK-NEXT: ts.pad
func.func @border(%x: tensor<74x17x3x2xf32>) -> tensor<74x17x6x7xf32> {
  %0 = ts.sigmoid %x : tensor<74x17x3x2xf32>
  %1 = ts.gelu %0 : tensor<74x17x3x2xf32>
  %2 = ts.pad %1 low [#ts.dim<0>, #ts.dim<0>, #ts.dim<1>, #ts.dim<2>] high [#ts.dim<0>, #ts.dim<0>, #ts.dim<2>, #ts.dim<3>] {mode = #ts<pad_mode edge>} : tensor<74x17x3x2xf32>
  return %2 : tensor<74x17x6x7xf32>
}
