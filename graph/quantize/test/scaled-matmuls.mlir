// RUN: knapper-opt --scaled-matmuls %s | FileCheck %s

!x = tensor<?x72xf32, #ts.dims<"m", 72>>
!y = tensor<?x24xf32, #ts.dims<"m", 24>>

// Blocks of 32 rows, the last one shorter, with zero points.
// CHECK-LABEL: @blocks
// CHECK: %[[W:.*]] = ts.weight
// CHECK: %[[Z:.*]] = ts.convert %arg2
// CHECK: ts.scaled_dot %arg0, %[[W]] scale %arg1 zero %[[Z]] {{.*}}group 32
func.func @blocks(%x: !x, %s: tensor<3x24xf32>, %z: tensor<3x24xi8>) -> !y {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %zw = ts.broadcast %z [0, 2] : tensor<3x24xi8> to tensor<3x32x24xi8>
  %zm = ts.reshape %zw : tensor<3x32x24xi8> to tensor<96x24xi8>
  %zs = ts.slice %zm [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<96x24xi8> to tensor<72x24xi8>
  %sw = ts.broadcast %s [0, 2] : tensor<3x24xf32> to tensor<3x32x24xf32>
  %sm = ts.reshape %sw : tensor<3x32x24xf32> to tensor<96x24xf32>
  %ss = ts.slice %sm [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<96x24xf32> to tensor<72x24xf32>
  %wi = ts.convert %w : tensor<72x24xi8> to tensor<72x24xi32>
  %zi = ts.convert %zs : tensor<72x24xi8> to tensor<72x24xi32>
  %d = ts.sub %wi, %zi : tensor<72x24xi32>
  %f = ts.convert %d : tensor<72x24xi32> to tensor<72x24xf32>
  %m = ts.mul %f, %ss : tensor<72x24xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  return %y : !y
}

// Unsigned nibbles of a matrix that lies the other way, a scale a column.
// CHECK-LABEL: @columns
// CHECK: %[[T:.*]] = ts.transpose {{.*}} : tensor<24x72xi4>
// CHECK: ts.scaled_dot %arg0, %[[T]] scale {{.*}} zero {{.*}}group 72
func.func @columns(%x: !x, %s: tensor<24xf32>) -> !y {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<24x72xui4>
  %sw = ts.broadcast %s [0] : tensor<24xf32> to tensor<24x72xf32>
  %wi = ts.convert %w : tensor<24x72xui4> to tensor<24x72xi32>
  %f = ts.convert %wi : tensor<24x72xi32> to tensor<24x72xf32>
  %m = ts.mul %f, %sw : tensor<24x72xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [1] : !x, tensor<24x72xf32>
  return %y : !y
}

// A scale a row is no scale of a group; integers that a run computes stay.
// CHECK-LABEL: @stays
// CHECK-COUNT-2: ts.dot
// CHECK-NOT: ts.scaled_dot
func.func @stays(%x: !x, %s: tensor<72xf32>, %t: tensor<f32>, %q: tensor<72x24xi8>) -> (!y, !y) {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %sw = ts.broadcast %s [0] : tensor<72xf32> to tensor<72x24xf32>
  %wi = ts.convert %w : tensor<72x24xi8> to tensor<72x24xi32>
  %f = ts.convert %wi : tensor<72x24xi32> to tensor<72x24xf32>
  %m = ts.mul %f, %sw : tensor<72x24xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  %tw = ts.broadcast %t [] : tensor<f32> to tensor<72x24xf32>
  %qi = ts.convert %q : tensor<72x24xi8> to tensor<72x24xi32>
  %g = ts.convert %qi : tensor<72x24xi32> to tensor<72x24xf32>
  %n = ts.mul %g, %tw : tensor<72x24xf32>
  %z = ts.dot %x, %n batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  return %y, %z : !y, !y
}
