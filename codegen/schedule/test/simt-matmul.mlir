// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// Matmuls of float32 by FMAs of which few tiles would have work on a GPU.
module attributes {ts.files = ["few"], ts.symbols = []} {
  // Few tiles of 64 x 64: smaller ones, whose depth the CTAs of a cluster share.
  // CHECK-DAG: kind = "gpu_matmul"{{.*}}algorithm = 0{{.*}}split_k = {{[248]}}{{.*}}tile_m = {{32|64}}
  // Few rows whose depth has no multiple of 16 bytes: B is read once, element by element.
  // CHECK-DAG: kind = "gpu_matmul"{{.*}}access = 1{{.*}}algorithm = 2
  // Few columns: A is read once.
  // CHECK-DAG: kind = "gpu_matmul"{{.*}}algorithm = 2{{.*}}swap_ab = 1
  // Heads wider than warpgroups keep: two matmuls by warpgroups and a softmax between them.
  // CHECK-DAG: ts.kernel matmul {{.*}}tensor<2x3x64x77xf16>{{.*}}algorithm = 1
  // CHECK-NOT: kind = "gpu_flash_attention"
  // CHECK: tile.func
  func.func @main(%x: tensor<112x610xf32>, %w: tensor<366x610xf32>, %y: tensor<3x1025xf32>, %v: tensor<1280x1025xf32>,
                  %z: tensor<88x4864xf32>, %u: tensor<4x4864xf32>, %q: tensor<2x3x64x320xf16>, %k: tensor<2x3x77x320xf16>)
      -> (tensor<112x366xf32>, tensor<3x1280xf32>, tensor<88x4xf32>, tensor<2x3x64x320xf16>) {
    %0 = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<112x610xf32>, tensor<366x610xf32>
    %1 = ts.dot %y, %v batch [] x [] contract [1] x [1] : tensor<3x1025xf32>, tensor<1280x1025xf32>
    %2 = ts.dot %z, %u batch [] x [] contract [1] x [1] : tensor<88x4864xf32>, tensor<4x4864xf32>
    %3 = ts.attention %q, %k, %k scale 0.1 : tensor<2x3x64x320xf16>, tensor<2x3x77x320xf16>, tensor<2x3x77x320xf16>
    return %0, %1, %2, %3 : tensor<112x366xf32>, tensor<3x1280xf32>, tensor<88x4xf32>, tensor<2x3x64x320xf16>
  }
}
