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

// Of the scales some columns, or every second one: no columns of the matrix.
// CHECK-LABEL: @columns_of_scales
// CHECK-NOT: ts.scaled_dot
// CHECK-COUNT-2: ts.dot
// CHECK-NOT: ts.scaled_dot
// CHECK: return
func.func @columns_of_scales(%x: !x, %s: tensor<3x24xf32>) -> (tensor<?x12xf32, #ts.dims<"m", 12>>, tensor<?x12xf32, #ts.dims<"m", 12>>) {
  %w = ts.weight <0, 0, 864, "w"> : tensor<72x12xi8>
  %wi = ts.convert %w : tensor<72x12xi8> to tensor<72x12xi32>
  %f = ts.convert %wi : tensor<72x12xi32> to tensor<72x12xf32>
  %sw = ts.broadcast %s [0, 2] : tensor<3x24xf32> to tensor<3x32x24xf32>
  %sm = ts.reshape %sw : tensor<3x32x24xf32> to tensor<96x24xf32>
  %first = ts.slice %sm [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<96x24xf32> to tensor<72x12xf32>
  %m = ts.mul %f, %first : tensor<72x12xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : !x, tensor<72x12xf32>
  %second = ts.slice %sm [#ts.dim<0>, #ts.dim<0>] [1, 2] : tensor<96x24xf32> to tensor<72x12xf32>
  %n = ts.mul %f, %second : tensor<72x12xf32>
  %z = ts.dot %x, %n batch [] x [] contract [1] x [0] : !x, tensor<72x12xf32>
  return %y, %z : tensor<?x12xf32, #ts.dims<"m", 12>>, tensor<?x12xf32, #ts.dims<"m", 12>>
}

// Spread and reshaped, yet not to rows of groups.
// CHECK-LABEL: @reshaped_otherwise
// CHECK-NOT: ts.scaled_dot
// CHECK: ts.dot
// CHECK: return
func.func @reshaped_otherwise(%x: tensor<3x6xf32>, %s: tensor<2x6xf32>) -> tensor<3x8xf32> {
  %w = ts.weight <0, 0, 48, "w"> : tensor<6x8xi8>
  %wi = ts.convert %w : tensor<6x8xi8> to tensor<6x8xi32>
  %f = ts.convert %wi : tensor<6x8xi32> to tensor<6x8xf32>
  %sb = ts.broadcast %s [0, 2] : tensor<2x6xf32> to tensor<2x4x6xf32>
  %sm = ts.reshape %sb : tensor<2x4x6xf32> to tensor<6x8xf32>
  %m = ts.mul %f, %sm : tensor<6x8xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : tensor<3x6xf32>, tensor<6x8xf32>
  return %y : tensor<3x8xf32>
}

// Four bits: a byte holds two rows of one group, so groups are even.
// CHECK-LABEL: @odd_groups
// CHECK-NOT: ts.scaled_dot
// CHECK: ts.dot
// CHECK: ts.scaled_dot {{.*}}group 6
func.func @odd_groups(%x: !x, %s: tensor<24x24xf32>, %t: tensor<12x24xf32>) -> (!y, !y) {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi4>
  %wi = ts.convert %w : tensor<72x24xi4> to tensor<72x24xi32>
  %f = ts.convert %wi : tensor<72x24xi32> to tensor<72x24xf32>
  %s3 = ts.broadcast %s [0, 2] : tensor<24x24xf32> to tensor<24x3x24xf32>
  %sm = ts.reshape %s3 : tensor<24x3x24xf32> to tensor<72x24xf32>
  %m = ts.mul %f, %sm : tensor<72x24xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  %t6 = ts.broadcast %t [0, 2] : tensor<12x24xf32> to tensor<12x6x24xf32>
  %tm = ts.reshape %t6 : tensor<12x6x24xf32> to tensor<72x24xf32>
  %n = ts.mul %f, %tm : tensor<72x24xf32>
  %z = ts.dot %x, %n batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  return %y, %z : !y, !y
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

// Scales of blocks of 32 and zero points of blocks of 24, three of each: one op
// has one size of blocks.
// CHECK-LABEL: @other_blocks
// CHECK-NOT: ts.scaled_dot
// CHECK: ts.dot
func.func @other_blocks(%x: !x, %s: tensor<3x24xf32>, %z: tensor<3x24xi8>) -> !y {
  %w = ts.weight <0, 0, 1728, "w"> : tensor<72x24xi8>
  %zw = ts.broadcast %z [0, 2] : tensor<3x24xi8> to tensor<3x24x24xi8>
  %zm = ts.reshape %zw : tensor<3x24x24xi8> to tensor<72x24xi8>
  %sw = ts.broadcast %s [0, 2] : tensor<3x24xf32> to tensor<3x32x24xf32>
  %sm = ts.reshape %sw : tensor<3x32x24xf32> to tensor<96x24xf32>
  %ss = ts.slice %sm [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<96x24xf32> to tensor<72x24xf32>
  %wi = ts.convert %w : tensor<72x24xi8> to tensor<72x24xi32>
  %zi = ts.convert %zm : tensor<72x24xi8> to tensor<72x24xi32>
  %d = ts.sub %wi, %zi : tensor<72x24xi32>
  %f = ts.convert %d : tensor<72x24xi32> to tensor<72x24xf32>
  %m = ts.mul %f, %ss : tensor<72x24xf32>
  %y = ts.dot %x, %m batch [] x [] contract [1] x [0] : !x, tensor<72x24xf32>
  return %y : !y
}
