// RUN: knapper-opt %s --form-kernels | FileCheck %s
// A BERT layer in canonical form: seven launches, nothing else between them but views.

!x = tensor<?x?x768xf32, #ts.dims<"batch", "seq", 768>>
!qkv = tensor<?x?x2304xf32, #ts.dims<"batch", "seq", 2304>>
!h = tensor<?x?x12x64xf32, #ts.dims<"batch", "seq", 12, 64>>
!p = tensor<?x12x?x64xf32, #ts.dims<"batch", 12, "seq", 64>>
!f = tensor<?x?x3072xf32, #ts.dims<"batch", "seq", 3072>>
!m = tensor<?x1x1x?xf32, #ts.dims<"batch", 1, 1, "seq">>

// CHECK-LABEL: func.func @layer
// CHECK: %[[QKV:.*]] = ts.kernel matmul
// CHECK: ts.dot
// CHECK: ts.add
// CHECK-NOT: ts.kernel
// CHECK: %[[A:.*]] = ts.kernel attention
// CHECK-SAME: %[[QKV]]
// CHECK-COUNT-3: ts.slice
// CHECK: ts.attention
// CHECK: ts.transpose
// CHECK-NOT: ts.kernel
// CHECK: ts.reshape
// CHECK-NOT: ts.kernel
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.kernel
// CHECK: ts.kernel reduce
// CHECK: ts.layer_norm
// CHECK-NOT: ts.kernel
// CHECK: ts.kernel matmul
// CHECK: ts.gelu
// CHECK-NOT: ts.kernel
// CHECK: ts.kernel matmul
// CHECK-NOT: ts.kernel
// CHECK: ts.kernel reduce
// CHECK-NOT: ts.kernel
// CHECK: return
module {
  func.func @layer(%x: !x, %mask: !m) -> !x {
    %wqkv = ts.weight <0, 0, 7077888, "wqkv"> : tensor<768x2304xf32>
    %bqkv = ts.weight <0, 0, 9216, "bqkv"> : tensor<2304xf32>
    %wo = ts.weight <0, 0, 2359296, "wo"> : tensor<768x768xf32>
    %bo = ts.weight <0, 0, 3072, "bo"> : tensor<768xf32>
    %w1 = ts.weight <0, 0, 9437184, "w1"> : tensor<768x3072xf32>
    %b1 = ts.weight <0, 0, 12288, "b1"> : tensor<3072xf32>
    %w2 = ts.weight <0, 0, 9437184, "w2"> : tensor<3072x768xf32>
    %b2 = ts.weight <0, 0, 3072, "b2"> : tensor<768xf32>
    %g = ts.weight <0, 0, 3072, "g"> : tensor<768xf32>

    %d = ts.dot %x, %wqkv batch [] x [] contract [2] x [0] : !x, tensor<768x2304xf32>
    %bb = ts.broadcast %bqkv [2] : tensor<2304xf32> to !qkv
    %qkv = ts.add %d, %bb : !qkv
    %q0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<0>] [1, 1, 1] : !qkv to !x
    %k0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<768>] [1, 1, 1] : !qkv to !x
    %v0 = ts.slice %qkv [#ts.dim<0>, #ts.dim<0>, #ts.dim<1536>] [1, 1, 1] : !qkv to !x
    %q1 = ts.reshape %q0 : !x to !h
    %k1 = ts.reshape %k0 : !x to !h
    %v1 = ts.reshape %v0 : !x to !h
    %q = ts.transpose %q1 [0, 2, 1, 3] : !h
    %k = ts.transpose %k1 [0, 2, 1, 3] : !h
    %v = ts.transpose %v1 [0, 2, 1, 3] : !h
    %a = ts.attention %q, %k, %v mask %mask : !m scale 0.125 : !p, !p, !p
    %a1 = ts.transpose %a [0, 2, 1, 3] : !p
    %a2 = ts.reshape %a1 : !h to !x
    %o = ts.dot %a2, %wo batch [] x [] contract [2] x [0] : !x, tensor<768x768xf32>
    %bob = ts.broadcast %bo [2] : tensor<768xf32> to !x
    %o1 = ts.add %o, %bob : !x
    %o2 = ts.add %o1, %x : !x
    %n = ts.layer_norm %o2 scale %g : tensor<768xf32> bias %g : tensor<768xf32> dim 2 epsilon 1.0e-12 : !x
    %f = ts.dot %n, %w1 batch [] x [] contract [2] x [0] : !x, tensor<768x3072xf32>
    %b1b = ts.broadcast %b1 [2] : tensor<3072xf32> to !f
    %f1 = ts.add %f, %b1b : !f
    %f2 = ts.gelu %f1 : !f
    %e = ts.dot %f2, %w2 batch [] x [] contract [2] x [0] : !f, tensor<3072x768xf32>
    %b2b = ts.broadcast %b2 [2] : tensor<768xf32> to !x
    %e1 = ts.add %e, %b2b : !x
    %e2 = ts.add %e1, %n : !x
    %y = ts.layer_norm %e2 scale %g : tensor<768xf32> bias %g : tensor<768xf32> dim 2 epsilon 1.0e-12 : !x
    return %y : !x
  }
}
