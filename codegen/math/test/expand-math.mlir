// RUN: knapper-opt %s --knapper-expand-math | FileCheck %s

// Straight-line arithmetic on the vector as it is, and nothing to call.
// CHECK-LABEL: func @exp
// CHECK-NOT: math.exp
// CHECK-NOT: scf.
// CHECK: math.fma {{.*}} : vector<16xf32>
// CHECK: return
func.func @exp(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  return %y : vector<16xf32>
}

// Huge arguments are behind a branch that asks for any lane.
// CHECK-LABEL: func @sin
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %{{.*}} : vector<8xi1> into i1
// CHECK: scf.if %[[ANY]] -> (vector<8xf32>, vector<8xi32>)
// CHECK-NOT: math.sin
// CHECK: return
func.func @sin(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.sin %x : vector<8xf32>
  return %y : vector<8xf32>
}

// A sine and a cosine of one value share the reduction.
// CHECK-LABEL: func @rotation
// CHECK-COUNT-1: scf.if
// CHECK-NOT: scf.if
// CHECK: return
func.func @rotation(%x: vector<8xf32>) -> (vector<8xf32>, vector<8xf32>) {
  %c = math.cos %x : vector<8xf32>
  %s = math.sin %x : vector<8xf32>
  return %s, %c : vector<8xf32>, vector<8xf32>
}

// Half precision is computed in f32 and rounded once.
// CHECK-LABEL: func @tanh_bf16
// CHECK: %[[WIDE:.*]] = arith.extf %arg0 : vector<4xbf16> to vector<4xf32>
// CHECK-NOT: bf16
// CHECK: arith.truncf %{{.*}} : vector<4xf32> to vector<4xbf16>
func.func @tanh_bf16(%x: vector<4xbf16>) -> vector<4xbf16> {
  %y = math.tanh %x : vector<4xbf16>
  return %y : vector<4xbf16>
}

// A square is a product.
// CHECK-LABEL: func @square
// CHECK-NEXT: arith.constant
// CHECK-NEXT: %[[P:.*]] = arith.mulf %arg0, %arg0 : f32
// CHECK-NEXT: return %[[P]]
func.func @square(%x: f32) -> f32 {
  %two = arith.constant 2.0 : f32
  %y = math.powf %x, %two : f32
  return %y : f32
}

// What has an instruction stays.
// CHECK-LABEL: func @native
// CHECK: math.floor
// CHECK: math.sqrt
// CHECK: math.roundeven
func.func @native(%x: vector<4xf32>) -> vector<4xf32> {
  %a = math.floor %x : vector<4xf32>
  %b = math.sqrt %a : vector<4xf32>
  %c = math.roundeven %b : vector<4xf32>
  return %c : vector<4xf32>
}

// For 16 bits one polynomial does; huge arguments have the whole function.
// CHECK-LABEL: func @sin_for_16_bits
// CHECK: scf.if
// CHECK: scf.if
// CHECK: arith.xori
// CHECK: return
func.func @sin_for_16_bits(%x: vector<8xf32>) -> vector<8xf32> {
  %y = math.sin %x fastmath<afn> : vector<8xf32>
  return %y : vector<8xf32>
}

// No f16 is huge.
// CHECK-LABEL: func @cos_of_f16
// CHECK-NOT: scf.if
// CHECK: return
func.func @cos_of_f16(%x: vector<8xf16>) -> vector<8xf32> {
  %w = arith.extf %x : vector<8xf16> to vector<8xf32>
  %y = math.cos %w fastmath<afn> : vector<8xf32>
  return %y : vector<8xf32>
}
