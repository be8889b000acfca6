// RUN: knapper compile %s --start-from simplify --stop-after fuse --target cuda:sm_90a --no-cache | FileCheck %s
// RUN: knapper compile %s --start-from simplify --stop-after schedule --target cuda:sm_90a --no-cache | FileCheck %s --check-prefix=H100
// RUN: knapper compile %s --start-from simplify --stop-after schedule --target cuda:sm_80 --no-cache | FileCheck %s --check-prefix=A100
// RUN: knapper compile %s --start-from simplify --stop-after fuse --target cpu --no-cache | FileCheck %s --check-prefix=CPU
// Attention in f32 of what was widened: one kernel, which reads 16 bits where the target is a GPU.

!h = tensor<2x960x4x64xbf16>
!n = tensor<2x4x960x64xbf16>
!w = tensor<2x4x960x64xf32>
!f = tensor<2x4x960x64xf16>
!p = tensor<4x2x960x64xbf16>
!m = tensor<1x8x960x64xbf16>
!v = tensor<1x8x960x64xf32>

module attributes {ts.symbols = [], ts.files = []} {
  func.func @main(%q: !h {ts.name = "q"}, %k: !n {ts.name = "k"}, %v: !n {ts.name = "v"}, %o: !f {ts.name = "o"}, %x: !p {ts.name = "x"}, %l: !m {ts.name = "l"})
      -> (!w {ts.name = "y"}, !w {ts.name = "z"}, !w {ts.name = "u"}, !v {ts.name = "s"}) {
    // A view before the conversion, and wide values that others read: the kernel has a conversion of its own.
    // CHECK-LABEL: func.func @main
    // CHECK: ts.kernel attention ({{.*}} : tensor<2x960x4x64xbf16>, {{.*}} : tensor<2x4x960x64xbf16>, {{.*}} : tensor<2x4x960x64xbf16>)
    // CHECK-COUNT-3: ts.convert
    // CHECK: ts.attention {{.*}}ts.reads_widened
    // H100: gpu_flash_attention{{.*}}algorithm = 1
    // A100: gpu_flash_attention{{.*}}algorithm = 0
    // CPU-NOT: ts.reads_widened
    %t = ts.transpose %q [0, 2, 1, 3] : !h
    %qw = ts.convert %t : !n to !w
    %kw = ts.convert %k : !n to !w
    %vw = ts.convert %v : !n to !w
    %0 = ts.attention %qw, %kw, %vw scale 0.125 {causal = true} : !w, !w, !w
    %1 = ts.exp %vw : !w
    // Of two types, or where an operand would have no strides: the conversions stay where they are.
    // CHECK: ts.attention
    // CHECK-NOT: ts.reads_widened
    // CHECK: return
    // H100: gpu_flash_attention{{.*}}algorithm = 0
    %ow = ts.convert %o : !f to !w
    %2 = ts.attention %qw, %kw, %ow scale 0.125 : !w, !w, !w
    %xt = ts.transpose %x [1, 0, 2, 3] : !p
    %xm = ts.reshape %xt : !n to !m
    %xw = ts.convert %xm : !m to !v
    %lw = ts.convert %l : !m to !v
    %3 = ts.attention %xw, %lw, %lw scale 0.125 : !v, !v, !v
    return %0, %1, %2, %3 : !w, !w, !w, !v
  }
}
