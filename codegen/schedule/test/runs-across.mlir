// RUN: knapper compile %s --start-from simplify --stop-after tile --target cuda:sm_90a --no-cache | FileCheck %s

// Of short rows that are whole runs of 16 bytes a thread of a GPU computes a run: its place is divided out once, and each operand is
// read by one access. A boundary between runs is a condition of a run, one within them of every lane.
module attributes {ts.files = ["runs-across"], ts.symbols = []} {
  // CHECK: kind = "pointwise"{{.*}}access = 8 : i64, across = 1 : i64, block = 2048
  // CHECK: kind = "pointwise"{{.*}}access = 8 : i64, across = 1 : i64, block = 2048
  // Rows of 33 have none.
  // CHECK: kind = "pointwise"{{.*}}access = 2 : i64, across = 1 : i64, block = 1024
  // CHECK-LABEL: tile.func
  // CHECK: tile.lane_groups 8 : vector<2048xindex>
  // CHECK: tile.gather {{.*}}run = 8
  // CHECK: tile.gather {{.*}}run = 8
  // CHECK-LABEL: tile.func
  // CHECK: tile.lane_groups 8 : vector<2048xindex>
  // CHECK-NOT: {run = 8
  // CHECK-LABEL: tile.func
  // CHECK-NOT: {run
  func.func @main(%x: tensor<9000x24xbf16>, %y: tensor<9000x40xbf16>, %z: tensor<9000x27xbf16>, %w: tensor<9000x37xbf16>, %v: tensor<9000x6xbf16>) -> (tensor<9000x64xbf16>, tensor<9000x64xbf16>, tensor<9000x33xbf16>) {
    %a = ts.concat %x, %y dim 1 : tensor<9000x24xbf16>, tensor<9000x40xbf16>
    %b = ts.concat %z, %w dim 1 : tensor<9000x27xbf16>, tensor<9000x37xbf16>
    %c = ts.concat %z, %v dim 1 : tensor<9000x27xbf16>, tensor<9000x6xbf16>
    return %a, %b, %c : tensor<9000x64xbf16>, tensor<9000x64xbf16>, tensor<9000x33xbf16>
  }
}
