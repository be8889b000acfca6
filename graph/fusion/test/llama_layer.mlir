// RUN: knapper-opt %s --form-kernels | FileCheck %s
// A Llama layer with 4 key heads of 12: eight launches. Rope reads query and key out of the qkv matrix, inside the
// attention; the gate's activation is its matmul's epilogue, times the other matmul.

!x = tensor<?x?x768xf32, #ts.dims<"batch", "seq", 768>>
!qkv = tensor<?x?x1280xf32, #ts.dims<"batch", "seq", 1280>>
!kv = tensor<?x?x256xf32, #ts.dims<"batch", "seq", 256>>
!h = tensor<?x?x12x64xf32, #ts.dims<"batch", "seq", 12, 64>>
!g = tensor<?x?x4x64xf32, #ts.dims<"batch", "seq", 4, 64>>
!p = tensor<?x12x?x64xf32, #ts.dims<"batch", 12, "seq", 64>>
!pg = tensor<?x4x?x64xf32, #ts.dims<"batch", 4, "seq", 64>>
!r = tensor<1x?x32xf32, #ts.dims<1, "seq", 32>>
!f = tensor<?x?x2048xf32, #ts.dims<"batch", "seq", 2048>>

// CHECK-LABEL: func.func @layer
// CHECK: ts.kernel reduce
// CHECK: ts.kernel matmul
// CHECK: %[[A:.*]] = ts.kernel attention
// CHECK-COUNT-2: ts.rope
// CHECK: ts.attention
// CHECK: ts.transpose
// CHECK-NEXT: ts.yield
// CHECK: ts.kernel matmul
// CHECK: ts.kernel reduce
// CHECK: ts.kernel matmul
// CHECK: ts.kernel matmul
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.kernel
// CHECK: return
func.func @layer(%x: !x, %cos: !r, %sin: !r) -> !x {
  %n = ts.weight <0, 0, 3072, "n"> : tensor<768xf32>
  %wqkv = ts.weight <0, 0, 3932160, "wqkv"> : tensor<768x1280xf32>
  %wo = ts.weight <0, 0, 2359296, "wo"> : tensor<768x768xf32>
  %wg = ts.weight <0, 0, 6291456, "wg"> : tensor<768x2048xf32>
  %wu = ts.weight <0, 0, 6291456, "wu"> : tensor<768x2048xf32>
  %wd = ts.weight <0, 0, 6291456, "wd"> : tensor<2048x768xf32>
  %0 = ts.layer_norm %x scale %n : tensor<768xf32> dim 2 epsilon 1.0e-5 {rms = true} : !x
  %qkv = ts.dot %0, %wqkv batch [] x [] contract [2] x [0] : !x, tensor<768x1280xf32>
  %q0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !qkv to !x
  %k0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<768>] [1, 1, 1] : !qkv to !kv
  %v0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<1024>] [1, 1, 1] : !qkv to !kv
  %q1 = ts.reshape %q0 : !x to !h
  %k1 = ts.reshape %k0 : !kv to !g
  %v1 = ts.reshape %v0 : !kv to !g
  %q2 = ts.transpose %q1 [0, 2, 1, 3] : !h
  %k2 = ts.transpose %k1 [0, 2, 1, 3] : !g
  %v2 = ts.transpose %v1 [0, 2, 1, 3] : !g
  %q3 = ts.rope %q2, %cos, %sin : !p, !r
  %k3 = ts.rope %k2, %cos, %sin : !pg, !r
  %a = ts.attention %q3, %k3, %v2 scale 0.125 {causal = true} : !p, !pg, !pg
  %a1 = ts.transpose %a [0, 2, 1, 3] : !p
  %a2 = ts.reshape %a1 : !h to !x
  %o = ts.dot %a2, %wo batch [] x [] contract [2] x [0] : !x, tensor<768x768xf32>
  %y = ts.add %x, %o : !x
  %1 = ts.layer_norm %y scale %n : tensor<768xf32> dim 2 epsilon 1.0e-5 {rms = true} : !x
  %g0 = ts.dot %1, %wg batch [] x [] contract [2] x [0] : !x, tensor<768x2048xf32>
  %u = ts.dot %1, %wu batch [] x [] contract [2] x [0] : !x, tensor<768x2048xf32>
  %g1 = ts.sigmoid %g0 : !f
  %g2 = ts.mul %g0, %g1 : !f
  %g3 = ts.mul %g2, %u : !f
  %d = ts.dot %g3, %wd batch [] x [] contract [2] x [0] : !f, tensor<2048x768xf32>
  %z = ts.add %y, %d : !x
  return %z : !x
}
