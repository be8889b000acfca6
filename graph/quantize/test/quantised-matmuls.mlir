// RUN: knapper-opt --quantised-matmuls %s | FileCheck %s

!x = tensor<?x64xui8, #ts.dims<"m", 64>>
!xi = tensor<?x64xi32, #ts.dims<"m", 64>>
!xf = tensor<?x64xf32, #ts.dims<"m", 64>>
!y = tensor<?x48xf32, #ts.dims<"m", 48>>

// A zero point of activations, none of weights, a scale a column.
// CHECK-LABEL: @columns
// CHECK: %[[W:.*]] = ts.weight
// CHECK: %[[D:.*]] = ts.dot %arg0, %[[W]] {{.*}}result_type = i32
// CHECK: %[[I:.*]] = ts.convert %[[W]] {{.*}} to tensor<64x48xi32>
// CHECK: %[[C:.*]] = ts.reduce add %[[I]]
// CHECK: %[[P:.*]] = ts.mul %[[C]]
// CHECK: %[[PB:.*]] = ts.broadcast %[[P]] [1]
// CHECK: %[[S:.*]] = ts.sub %[[D]], %[[PB]]
// CHECK: %[[F:.*]] = ts.convert %[[S]] {{.*}} to tensor<?x48xf32
// CHECK: %[[A:.*]] = ts.mul %[[F]]
// CHECK: %[[T:.*]] = ts.broadcast %arg2 [1]
// CHECK: %[[R:.*]] = ts.mul %[[A]], %[[T]]
// CHECK: return %[[R]]
func.func @columns(%x: !x, %s: tensor<f32>, %t: tensor<48xf32>) -> !y {
  %w = ts.weight <0, 0, 3072, "w"> : tensor<64x48xi8>
  %p = ts.constant dense<3> : tensor<ui8>
  %q = ts.constant dense<0> : tensor<i8>
  %pb = ts.broadcast %p [] : tensor<ui8> to !x
  %sb = ts.broadcast %s [] : tensor<f32> to !xf
  %xi = ts.convert %x : !x to !xi
  %pi = ts.convert %pb : !x to !xi
  %xd = ts.sub %xi, %pi : !xi
  %xf = ts.convert %xd : !xi to !xf
  %xs = ts.mul %xf, %sb : !xf
  %qb = ts.broadcast %q [] : tensor<i8> to tensor<64x48xi8>
  %tb = ts.broadcast %t [1] : tensor<48xf32> to tensor<64x48xf32>
  %wi = ts.convert %w : tensor<64x48xi8> to tensor<64x48xi32>
  %qi = ts.convert %qb : tensor<64x48xi8> to tensor<64x48xi32>
  %wd = ts.sub %wi, %qi : tensor<64x48xi32>
  %wf = ts.convert %wd : tensor<64x48xi32> to tensor<64x48xf32>
  %ws = ts.mul %wf, %tb : tensor<64x48xf32>
  %d = ts.dot %xs, %ws batch [] x [] contract [1] x [0] : !xf, tensor<64x48xf32>
  return %d : !y
}

// Signed activations move up by 128; without a zero point of theirs the number
// is one. Weights with one: sums of rows.
// CHECK-LABEL: @rows
// CHECK: %[[U:.*]] = ts.convert {{.*}}i32> to tensor<5x64xui8>
// CHECK: %[[D:.*]] = ts.dot %[[U]], {{.*}} contract [1] x [1] {result_type = i32}
// CHECK: ts.reduce add {{.*}} [1] : tensor<48x64xi32>
// CHECK: ts.reduce add {{.*}} [1] : tensor<5x64xi32>
// CHECK-NOT: ts.dot
func.func @rows(%x: tensor<5x64xi8>, %s: tensor<f32>) -> tensor<5x48xf32> {
  %w = ts.weight <0, 0, 3072, "w"> : tensor<48x64xi8>
  %q = ts.constant dense<5> : tensor<i8>
  %sb = ts.broadcast %s [] : tensor<f32> to tensor<5x64xf32>
  %xi = ts.convert %x : tensor<5x64xi8> to tensor<5x64xi32>
  %xf = ts.convert %xi : tensor<5x64xi32> to tensor<5x64xf32>
  %xs = ts.mul %xf, %sb : tensor<5x64xf32>
  %qb = ts.broadcast %q [] : tensor<i8> to tensor<48x64xi8>
  %tb = ts.broadcast %s [] : tensor<f32> to tensor<48x64xf32>
  %wi = ts.convert %w : tensor<48x64xi8> to tensor<48x64xi32>
  %qi = ts.convert %qb : tensor<48x64xi8> to tensor<48x64xi32>
  %wd = ts.sub %wi, %qi : tensor<48x64xi32>
  %wf = ts.convert %wd : tensor<48x64xi32> to tensor<48x64xf32>
  %ws = ts.mul %wf, %tb : tensor<48x64xf32>
  %d = ts.dot %xs, %ws batch [] x [] contract [1] x [1] : tensor<5x64xf32>, tensor<48x64xf32>
  return %d : tensor<5x48xf32>
}

// A scale along the contracted dim does not come out of the sum; nor does a
// matmul of two inputs become one of bytes.
// CHECK-LABEL: @stay
// CHECK-COUNT-2: ts.dot {{.*}}f32>, tensor<64x48xf32>
func.func @stay(%x: tensor<5x64xi8>, %s: tensor<f32>, %t: tensor<64xf32>, %v: tensor<64x48xi8>)
    -> (tensor<5x48xf32>, tensor<5x48xf32>) {
  %w = ts.weight <0, 0, 3072, "w"> : tensor<64x48xi8>
  %sb = ts.broadcast %s [] : tensor<f32> to tensor<5x64xf32>
  %xi = ts.convert %x : tensor<5x64xi8> to tensor<5x64xi32>
  %xf = ts.convert %xi : tensor<5x64xi32> to tensor<5x64xf32>
  %xs = ts.mul %xf, %sb : tensor<5x64xf32>
  %tb = ts.broadcast %t [0] : tensor<64xf32> to tensor<64x48xf32>
  %wi = ts.convert %w : tensor<64x48xi8> to tensor<64x48xi32>
  %wf = ts.convert %wi : tensor<64x48xi32> to tensor<64x48xf32>
  %ws = ts.mul %wf, %tb : tensor<64x48xf32>
  %d = ts.dot %xs, %ws batch [] x [] contract [1] x [0] : tensor<5x64xf32>, tensor<64x48xf32>
  %ub = ts.broadcast %s [] : tensor<f32> to tensor<64x48xf32>
  %vi = ts.convert %v : tensor<64x48xi8> to tensor<64x48xi32>
  %vf = ts.convert %vi : tensor<64x48xi32> to tensor<64x48xf32>
  %vs = ts.mul %vf, %ub : tensor<64x48xf32>
  %e = ts.dot %xs, %vs batch [] x [] contract [1] x [0] : tensor<5x64xf32>, tensor<64x48xf32>
  return %d, %e : tensor<5x48xf32>, tensor<5x48xf32>
}

// A convolution: what the zero point takes away is the same everywhere, since
// the border holds it.
// CHECK-LABEL: @conv
// CHECK: %[[P:.*]] = ts.constant dense<3> : tensor<ui8>
// CHECK: %[[I:.*]] = ts.convert %[[P]] {{.*}} to tensor<i32>
// CHECK: %[[B:.*]] = ts.convert %[[I]] {{.*}} to tensor<ui8>
// CHECK: %[[X:.*]] = ts.pad %arg0 value %[[B]]
// CHECK: %[[C:.*]] = ts.conv %[[X]], {{.*}} low [#ts.dim<0>, #ts.dim<0>]
// CHECK-SAME: tensor<2x8x8x8xui8>, tensor<6x8x3x2xi8>
// CHECK: ts.reduce add {{.*}} [1, 2, 3] : tensor<6x8x3x2xi32>
// CHECK: ts.broadcast {{.*}} [1] : tensor<6xi32> to tensor<2x6x6x7xi32>
// CHECK: ts.broadcast %arg2 [1] : tensor<6xf32> to tensor<2x6x6x7xf32>
func.func @conv(%x: tensor<2x8x6x7xui8>, %s: tensor<f32>, %t: tensor<6xf32>) -> tensor<2x6x6x7xf32> {
  %w = ts.weight <0, 0, 288, "w"> : tensor<6x8x3x2xi8>
  %p = ts.constant dense<3> : tensor<ui8>
  %pb = ts.broadcast %p [] : tensor<ui8> to tensor<2x8x6x7xui8>
  %sb = ts.broadcast %s [] : tensor<f32> to tensor<2x8x6x7xf32>
  %xi = ts.convert %x : tensor<2x8x6x7xui8> to tensor<2x8x6x7xi32>
  %pi = ts.convert %pb : tensor<2x8x6x7xui8> to tensor<2x8x6x7xi32>
  %xd = ts.sub %xi, %pi : tensor<2x8x6x7xi32>
  %xf = ts.convert %xd : tensor<2x8x6x7xi32> to tensor<2x8x6x7xf32>
  %xs = ts.mul %xf, %sb : tensor<2x8x6x7xf32>
  %wi = ts.convert %w : tensor<6x8x3x2xi8> to tensor<6x8x3x2xi32>
  %wf = ts.convert %wi : tensor<6x8x3x2xi32> to tensor<6x8x3x2xf32>
  %tb = ts.broadcast %t [0] : tensor<6xf32> to tensor<6x8x3x2xf32>
  %ws = ts.mul %wf, %tb : tensor<6x8x3x2xf32>
  %c = ts.conv %xs, %ws strides [1, 1] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<1>, #ts.dim<1>] : tensor<2x8x6x7xf32>, tensor<6x8x3x2xf32>
  return %c : tensor<2x6x6x7xf32>
}

// In i32, groups, unsigned weights with a zero point a feature: sums over
// windows, one a group.
// CHECK-LABEL: @exact
// CHECK: %[[C:.*]] = ts.conv {{.*}}groups = 2{{.*}} : tensor<1x4x5x5xui8>, tensor<6x2x3x3xi8>
// CHECK: ts.pool sum {{.*}} window [3, 3] strides [2, 2]
// CHECK: ts.broadcast {{.*}} [0, 1, 3, 4] : tensor<1x2x2x2xi32> to tensor<1x2x3x2x2xi32>
func.func @exact(%x: tensor<1x4x5x5xui8>, %q: tensor<6xui8>) -> tensor<1x6x2x2xi32> {
  %w = ts.weight <0, 0, 108, "w"> : tensor<6x2x3x3xui8>
  %xi = ts.convert %x : tensor<1x4x5x5xui8> to tensor<1x4x5x5xi32>
  %qi = ts.convert %q : tensor<6xui8> to tensor<6xi32>
  %qb = ts.broadcast %qi [0] : tensor<6xi32> to tensor<6x2x3x3xi32>
  %wi = ts.convert %w : tensor<6x2x3x3xui8> to tensor<6x2x3x3xi32>
  %wd = ts.sub %wi, %qb : tensor<6x2x3x3xi32>
  %c = ts.conv %xi, %wd strides [2, 2] dilations [1, 1] input_dilations [1, 1] low [#ts.dim<0>, #ts.dim<0>] high [#ts.dim<0>, #ts.dim<0>] {groups = 2 : i64} : tensor<1x4x5x5xi32>, tensor<6x2x3x3xi32>
  return %c : tensor<1x6x2x2xi32>
}
