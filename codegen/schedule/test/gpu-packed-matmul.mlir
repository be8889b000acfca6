// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s

// Up to 8 and 16 rows the warps of a CTA share out the depth of 16 columns, up
// to 32 they are four columns' blocks in two parts; of more rows each warp has
// columns of its own. Four bits: a group of 128 is what four threads read at
// once.
// CHECK: tile.packed_matmul A(%arg0) integers(%arg1) scale(%arg2)
// CHECK-SAME: bits = 4 : i64, bytes = 16 : i64, depth = 4096 : i64, group = 128 : i64, stages = 4 : i64, tile_m = 8 : i64, warps_k = 8 : i64, warps_n = 1 : i64
// CHECK: tile_m = 16 : i64, warps_k = 8 : i64, warps_n = 1 : i64
// CHECK: tile_m = 32 : i64, warps_k = 2 : i64, warps_n = 4 : i64
// CHECK: tile_m = 64 : i64, warps_k = 1 : i64, warps_n = 8 : i64
func.func @four(%x: tensor<?x4096xbf16, #ts.dims<"t", 4096>>, %w: tensor<512x2048xi8>, %s: tensor<512x32xf32>) -> tensor<?x512xbf16, #ts.dims<"t", 512>> {
  %0 = ts.kernel matmul (%a = %x : tensor<?x4096xbf16, #ts.dims<"t", 4096>>, %b = %w : tensor<512x2048xi8>, %c = %s : tensor<512x32xf32>) -> tensor<?x512xbf16, #ts.dims<"t", 512>> {
    %r = ts.packed_dot %a, %b scale %c bits 4 group 128 : tensor<?x4096xbf16, #ts.dims<"t", 4096>>, tensor<512x2048xi8>, tensor<512x32xf32>
    %n = ts.convert %r : tensor<?x512xf32, #ts.dims<"t", 512>> to tensor<?x512xbf16, #ts.dims<"t", 512>>
    ts.yield %n : tensor<?x512xbf16, #ts.dims<"t", 512>>
  }
  return %0 : tensor<?x512xbf16, #ts.dims<"t", 512>>
}

// Of more than 32 rows the floats that were made of the integers are read.
// CHECK: tile.packed_matmul {{.*}} tile_m = 8 : i64
// CHECK: tile.packed_matmul {{.*}} tile_m = 16 : i64
// CHECK: tile.packed_matmul {{.*}} tile_m = 32 : i64
// CHECK-NOT: tile.packed_matmul
// CHECK: tile.matmul A(%arg0[{{.*}}) B(%arg3[{{.*}}) size {{.*}} algorithm = 1 : i64
!e = tensor<?x4096xbf16, #ts.dims<"512*min(floordiv(t, 33), 1)", 4096>>
func.func @expanded(%x: tensor<?x4096xbf16, #ts.dims<"t", 4096>>, %w: tensor<512x2048xi8>, %s: tensor<512x32xf32>, %e: !e) -> tensor<?x512xf32, #ts.dims<"t", 512>> {
  %0 = ts.kernel matmul (%a = %x : tensor<?x4096xbf16, #ts.dims<"t", 4096>>, %b = %w : tensor<512x2048xi8>, %c = %s : tensor<512x32xf32>, %d = %e : !e) -> tensor<?x512xf32, #ts.dims<"t", 512>> {
    %r = ts.packed_dot %a, %b scale %c expanded %d : !e bits 4 group 128 : tensor<?x4096xbf16, #ts.dims<"t", 4096>>, tensor<512x2048xi8>, tensor<512x32xf32>
    ts.yield %r : tensor<?x512xf32, #ts.dims<"t", 512>>
  }
  return %0 : tensor<?x512xf32, #ts.dims<"t", 512>>
}

// f32 in three parts: 16 rows at most. Groups of 32 bytes take accesses of 8.
// CHECK: bits = 8 : i64, bytes = 8 : i64, depth = 96 : i64, group = 32 : i64, stages = 1 : i64, tile_m = 8 : i64, warps_k = 4 : i64, warps_n = 1 : i64
// CHECK: tile_m = 16 : i64, warps_k = 4 : i64, warps_n = 1 : i64
// CHECK: tile_m = 16 : i64, warps_k = 1 : i64, warps_n = 8 : i64
// CHECK-NOT: tile.packed_matmul
func.func @eight(%x: tensor<?x96xf32, #ts.dims<"t", 96>>, %w: tensor<512x96xi8>, %s: tensor<512x3xf32>) -> tensor<?x512xf32, #ts.dims<"t", 512>> {
  %0 = ts.kernel matmul (%a = %x : tensor<?x96xf32, #ts.dims<"t", 96>>, %b = %w : tensor<512x96xi8>, %c = %s : tensor<512x3xf32>) -> tensor<?x512xf32, #ts.dims<"t", 512>> {
    %r = ts.packed_dot %a, %b scale %c bits 8 group 32 : tensor<?x96xf32, #ts.dims<"t", 96>>, tensor<512x96xi8>, tensor<512x3xf32>
    ts.yield %r : tensor<?x512xf32, #ts.dims<"t", 512>>
  }
  return %0 : tensor<?x512xf32, #ts.dims<"t", 512>>
}
