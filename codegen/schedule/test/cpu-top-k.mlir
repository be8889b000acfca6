// RUN: knapper-translate --kernels-to-tile --isa=x86-64-v4 --split-input-file %s | FileCheck %s

// 20 of long lines: what 64 lanes keep gives a bound, what reaches it is listed,
// and counted unless the list is long.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK: tile.load {{.*}} -> vector<64xf32>
// CHECK: vector.reduction <maxui>, {{.*}} : vector<64xi32> into i32
// CHECK: vector.reduction <or>, {{.*}} : vector<16xi1> into i1
// CHECK: arith.cmpi uge, {{.*}} : vector<16xi32>
func.func @main(%x: tensor<7x3000xf32>) -> tensor<7x20xf32> {
  %0 = ts.kernel sort (%a = %x : tensor<7x3000xf32>) -> tensor<7x20xf32> {
    %v, %i = ts.topk %a k <20> dim 1 : tensor<7x3000xf32>
    ts.yield %v : tensor<7x20xf32>
  }
  return %0 : tensor<7x20xf32>
}

// -----

// Short lines are counted whole.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK-NOT: vector.reduction
// CHECK: arith.cmpi uge, {{.*}} : vector<16xi32>
func.func @main(%x: tensor<98x103xf32>) -> tensor<98x103xf32> {
  %0 = ts.kernel sort (%a = %x : tensor<98x103xf32>) -> tensor<98x103xf32> {
    %v, %i = ts.topk %a k <103> dim 1 : tensor<98x103xf32>
    ts.yield %v : tensor<98x103xf32>
  }
  return %0 : tensor<98x103xf32>
}

// -----

// An eighth of a long line is listed by what 768 lanes keep, and what is listed
// goes by the bits of its keys: its places are moved with them.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK: %c768 = arith.constant 768 : index
// CHECK: arith.cmpi uge, {{.*}} : vector<16xi32>
// CHECK: arith.xori
// CHECK: arith.shrui {{.*}} : i32
func.func @main(%x: tensor<7x3072xf32>) -> tensor<7x384xf32> {
  %0 = ts.kernel sort (%a = %x : tensor<7x3072xf32>) -> tensor<7x384xf32> {
    %v, %i = ts.topk %a k <384> dim 1 : tensor<7x3072xf32>
    ts.yield %v : tensor<7x384xf32>
  }
  return %0 : tensor<7x384xf32>
}

// -----

// Half of a long line goes by the bits of its keys.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK-NOT: vector<
func.func @main(%x: tensor<7x3000xf32>) -> tensor<7x1500xf32> {
  %0 = ts.kernel sort (%a = %x : tensor<7x3000xf32>) -> tensor<7x1500xf32> {
    %v, %i = ts.topk %a k <1500> dim 1 : tensor<7x3000xf32>
    ts.yield %v : tensor<7x1500xf32>
  }
  return %0 : tensor<7x1500xf32>
}

// -----

// Sums of f32 are carried as f64, along the last dim and beside others.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK: arith.addf {{.*}} : f64
// CHECK: arith.truncf {{.*}} : f64 to f32
func.func @main(%x: tensor<3x3000xf32>) -> tensor<3x3000xf32> {
  %0 = ts.kernel scan (%a = %x : tensor<3x3000xf32>) -> tensor<3x3000xf32> {
    %r = ts.scan add %a dim 1 : tensor<3x3000xf32>
    ts.yield %r : tensor<3x3000xf32>
  }
  return %0 : tensor<3x3000xf32>
}

// -----

// Places within a merged dim are divided as 32 bits.
// CHECK-LABEL: tile.func @kernel0_0
// CHECK: arith.remui {{.*}}xi32>
func.func @main(%x: tensor<56x28xf32>) -> tensor<3136xf32> {
  %0 = ts.kernel pointwise (%a = %x : tensor<56x28xf32>) -> tensor<3136xf32> {
    %b = ts.broadcast %a [0, 1] : tensor<56x28xf32> to tensor<56x28x2xf32>
    %r = ts.reshape %b : tensor<56x28x2xf32> to tensor<3136xf32>
    ts.yield %r : tensor<3136xf32>
  }
  return %0 : tensor<3136xf32>
}
