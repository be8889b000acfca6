// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | FileCheck %s
// RUN: knapper-opt %s --form-kernels | knapper-translate --kernels-to-tile --isa=x86-64-v4 | FileCheck %s --check-prefix=CPU

// A score over its cap, a hyperbolic tangent, rounded to 16 bits: one
// exponential, one reciprocal, and a division that may be a product. CPUs keep
// the quotient and tanh by their definitions.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK: arith.divf {{.*}} fastmath<arcp>
// CHECK: exp2 {{.*}}fastmath<afn>
// CHECK: arith.divf {{.*}} fastmath<afn>
// CHECK-NOT: math.tanh
// CPU-LABEL: tile.func @kernel0_0
// CPU-NOT: fastmath
// CPU: arith.divf
func.func @cap(%x: tensor<64x1000xbf16>) -> tensor<64x1000xbf16> {
  %c = ts.constant dense<5.000000e+01> : tensor<64x1000xbf16>
  %0 = ts.div %x, %c : tensor<64x1000xbf16>
  %1 = ts.tanh %0 : tensor<64x1000xbf16>
  %2 = ts.mul %1, %c : tensor<64x1000xbf16>
  return %2 : tensor<64x1000xbf16>
}

// A quotient that another op reads is rounded to nearest: the floor of 98 / 49
// must be 2.
// CHECK-LABEL: tile.func @kernel1_0
// CHECK: arith.divf
// CHECK-NOT: arcp
// CHECK: tile.store
func.func @floor(%x: tensor<64x1000xbf16>) -> tensor<64x1000xbf16> {
  %c = ts.constant dense<4.900000e+01> : tensor<64x1000xbf16>
  %0 = ts.div %x, %c : tensor<64x1000xbf16>
  %1 = ts.floor %0 : tensor<64x1000xbf16>
  return %1 : tensor<64x1000xbf16>
}

// Reciprocals of divisors that are no number, or a denormal, may be infinite.
// CHECK-LABEL: tile.func @kernel2_0
// CHECK: arith.divf
// CHECK-NOT: arcp
// CHECK: tile.store
func.func @divisors(%x: tensor<64x1000xbf16>, %c: tensor<64x1000xbf16>) -> tensor<64x1000xbf16> {
  %0 = ts.div %x, %c : tensor<64x1000xbf16>
  %1 = ts.tanh %0 : tensor<64x1000xbf16>
  return %1 : tensor<64x1000xbf16>
}

// CHECK-LABEL: tile.func @kernel3_0
// CHECK: arith.divf
// CHECK-NOT: arcp
// CHECK: tile.store
func.func @denormal(%x: tensor<64x1000xbf16>) -> tensor<64x1000xbf16> {
  %c = ts.constant dense<1.000000e-39> : tensor<64x1000xbf16>
  %0 = ts.div %x, %c : tensor<64x1000xbf16>
  %1 = ts.tanh %0 : tensor<64x1000xbf16>
  return %1 : tensor<64x1000xbf16>
}
