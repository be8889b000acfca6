// RUN: knapper-opt %s --order-kernels=report -verify-diagnostics | FileCheck %s
// Two large results summed up one after the other: never both alive.

!t = tensor<64x1024xf32>
!s = tensor<64xf32>

// CHECK-LABEL: func.func @sums
// CHECK: %[[A:.*]] = ts.kernel pointwise
// CHECK: %[[SA:.*]] = ts.kernel reduce (%{{.*}} = %[[A]] :
// CHECK: %[[B:.*]] = ts.kernel pointwise
// CHECK: %[[SB:.*]] = ts.kernel reduce (%{{.*}} = %[[B]] :
// CHECK: return %[[SA]], %[[SB]]
// expected-remark@+1 {{peak 524544 bytes, then 262656}}
func.func @sums(%x: !t) -> (!s, !s) {
  %a = ts.kernel pointwise (%i = %x : !t) -> !t {
    %0 = ts.exp %i : !t
    ts.yield %0 : !t
  }
  %b = ts.kernel pointwise (%i = %x : !t) -> !t {
    %0 = ts.neg %i : !t
    ts.yield %0 : !t
  }
  %sa = ts.kernel reduce (%i = %a : !t) -> !s {
    %0 = ts.reduce add %i [1] : !t
    ts.yield %0 : !s
  }
  %sb = ts.kernel reduce (%i = %b : !t) -> !s {
    %0 = ts.reduce add %i [1] : !t
    ts.yield %0 : !s
  }
  return %sa, %sb : !s, !s
}
