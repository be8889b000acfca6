// RUN: knapper-opt --packed-matmuls %s | FileCheck %s

!x = tensor<?x72xf32, #ts.dims<"m", 72>>
!h = tensor<?x72xbf16, #ts.dims<"m", 72>>
!y = tensor<?x24xf32, #ts.dims<"m", 24>>

// Bytes by depth; x as it was before it was widened.
// CHECK-LABEL: @bytes
// CHECK: %[[W:.*]] = ts.weight
// CHECK-DAG: %[[T:.*]] = ts.transpose %[[W]] [1, 0] : tensor<72x24xi8>
// CHECK-DAG: %[[S:.*]] = ts.transpose %arg1 [1, 0] : tensor<3x24xf32>
// CHECK: ts.packed_dot %arg0, %[[T]] scale %[[S]] bits 8 group 32 : tensor<?x72xbf16
func.func @bytes(%x: !h, %s: tensor<3x24xf32>) -> !y {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %f = ts.convert %x : !h to !x
  %y = ts.scaled_dot %f, %w scale %s group 32 : !x, tensor<72x24xi8>, tensor<3x24xf32>
  return %y : !y
}

// Of an odd depth the last byte has one integer.
// CHECK-LABEL: @nibbles
// CHECK: ts.pad
// CHECK: ts.reshape {{.*}} to tensor<24x36x2xi32>
// CHECK: ts.and
// CHECK: %[[B:.*]] = ts.convert {{.*}} : tensor<24x36xi32> to tensor<24x36xi8>
// CHECK: ts.packed_dot %arg0, %[[B]] scale {{.*}} bits 4 group 32
func.func @nibbles(%x: tensor<?x71xf32, #ts.dims<"m", 71>>, %s: tensor<3x24xf32>) -> !y {
  %w = ts.weight <0, 0, 1704, "w"> : tensor<71x24xi4>
  %y = ts.scaled_dot %x, %w scale %s group 32 : tensor<?x71xf32, #ts.dims<"m", 71>>, tensor<71x24xi4>, tensor<3x24xf32>
  return %y : !y
}

// CHECK-LABEL: @zeros
// CHECK: ts.scaled_dot
func.func @zeros(%x: !x, %s: tensor<3x24xf32>, %z: tensor<3x24xf32>) -> !y {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %y = ts.scaled_dot %x, %w scale %s zero %z : tensor<3x24xf32> group 32 : !x, tensor<72x24xi8>, tensor<3x24xf32>
  return %y : !y
}

// CHECK-LABEL: @rows
// CHECK: ts.packed_dot
// CHECK: ts.scaled_dot
func.func @rows(%x: tensor<4x8x72xf32>, %z: tensor<3x11x72xf32>, %s: tensor<3x24xf32>) -> (tensor<4x8x24xf32>, tensor<3x11x24xf32>) {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %y = ts.scaled_dot %x, %w scale %s group 32 : tensor<4x8x72xf32>, tensor<72x24xi8>, tensor<3x24xf32>
  %v = ts.scaled_dot %z, %w scale %s group 32 : tensor<3x11x72xf32>, tensor<72x24xi8>, tensor<3x24xf32>
  return %y, %v : tensor<4x8x24xf32>, tensor<3x11x24xf32>
}
