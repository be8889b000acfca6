// RUN: knapper-translate --kernels-to-tile --isa=sm_90a %s | FileCheck %s
// RUN: knapper-translate --kernels-to-tile --isa=sm_80 %s | FileCheck %s --check-prefix=SM80

// Few tokens: eight CTAs of a cluster share out a token's keys; then fewer, then
// one; last tiles of neighbouring tokens. Without clusters one CTA from the
// start.
// CHECK: tile.paged_attention Q(%arg0) K(%arg1) V(%arg2) table %arg3 sequence %arg4 position %arg5 to %arg6
// CHECK-SAME: window 9 shape {{.*}}key_split = 8 : i64{{.*}}keys = 16 : i64{{.*}}tokens = 0 : i64
// CHECK: key_split = 4 : i64
// CHECK: key_split = 2 : i64
// CHECK-NOT: key_split
// CHECK: keys = 64 : i64{{.*}}tokens = 32 : i64{{.*}}warps = 8 : i64
// SM80-NOT: key_split
// SM80: tokens = 0 : i64
// SM80-NOT: key_split
// SM80: tokens = 32 : i64
func.func @main(%q: tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>>, %k: tensor<99x8x16x128xbf16>, %v: tensor<99x8x16x128xbf16>,
                %i: tensor<3x5xi32>, %s: tensor<?xi32, #ts.dims<"t">>, %p: tensor<?xi32, #ts.dims<"t">>) -> tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>> {
  %0 = ts.kernel attention (%a = %q : tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>>, %b = %k : tensor<99x8x16x128xbf16>,
      %c = %v : tensor<99x8x16x128xbf16>, %d = %i : tensor<3x5xi32>, %e = %s : tensor<?xi32, #ts.dims<"t">>,
      %f = %p : tensor<?xi32, #ts.dims<"t">>) -> tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>> {
    %r = ts.paged_attention %a, %b, %c table %d sequence %e position %f scale 0.125 {window = 9} :
      tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>>, tensor<99x8x16x128xbf16>, tensor<99x8x16x128xbf16>, tensor<3x5xi32>,
      tensor<?xi32, #ts.dims<"t">>, tensor<?xi32, #ts.dims<"t">>
    ts.yield %r : tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>>
  }
  return %0 : tensor<?x32x128xbf16, #ts.dims<"t", 32, 128>>
}
