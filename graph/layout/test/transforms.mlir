// CPUs: real numbers of even length are half as many complex ones, whose table is added; odd ones are
// complex with zeros; what has a large prime factor, and everything on GPUs, is multiplied by matrices.
// RUN: knapper compile %s --stop-after=simplify --no-cache | FileCheck %s --check-prefix=CPU
// RUN: knapper compile %s --target cuda:sm_90a --stop-after=simplify --no-cache | FileCheck %s --check-prefix=GPU

module attributes {ts.symbols = []} {

// CPU-LABEL: func.func @main
// CPU-DAG: ts.dft %{{.*}} table %{{.*}} : tensor<[[#]]xf32> length <1024> from_real : tensor<3x1024xf32>
// CPU-DAG: ts.dft %{{.*}} table %{{.*}} : tensor<[[#]]xf32> length <105> : tensor<3x210xf32>
// CPU-DAG: ts.dot
// CPU-NOT: ts.dft
// CPU: return
// GPU-LABEL: func.func @main
// GPU-NOT: ts.dft
// GPU: return
func.func @main(%a: tensor<3x1024xf32>, %b: tensor<3x105xf32>, %c: tensor<3x127xf32>) -> (tensor<3x1026xf32>, tensor<3x106xf32>, tensor<3x128xf32>) {
  %x = ts.dft %a length <1024> from_real : tensor<3x1024xf32>
  %y = ts.dft %b length <105> from_real : tensor<3x105xf32>
  %z = ts.dft %c length <127> from_real : tensor<3x127xf32>
  return %x, %y, %z : tensor<3x1026xf32>, tensor<3x106xf32>, tensor<3x128xf32>
}
}
