// RUN: knapper-opt --quantised-products %s | FileCheck %s

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
// product of two inputs become one of bytes.
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
