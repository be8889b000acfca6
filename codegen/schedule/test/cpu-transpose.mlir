// RUN: knapper compile %s --start-from simplify --stop-after tile --isa x86-64-v4 --no-cache | FileCheck %s

// Transposes work on tiles of a register a row; the last of a dim that they do not
// divide begins earlier, and none is cut.
module attributes {ts.files = ["weights"], ts.symbols = []} {
  // CHECK-LABEL: tile.func @cpu_transpose_
  // CHECK: tile.load_rows %arg0{{.*}} columns 16
  // CHECK-NEXT: tile.transpose {{.*}} columns 16
  // CHECK-COUNT-16: tile.store {{.*}}vector<16xf32>
  // CHECK-NOT: tile.store
  // CHECK: tile.return

  // Three channels lie within a run.
  // CHECK-LABEL: tile.func @cpu_transpose_
  // CHECK: tile.load %arg0{{.*}}vector<48xf32>
  // CHECK-NEXT: tile.transpose {{.*}} columns 3
  // CHECK-COUNT-3: tile.store {{.*}}vector<16xf32>
  // CHECK: tile.return

  // Rows of seven elements are reduced sixteen at a time.
  // CHECK-LABEL: tile.func @short_rows_
  // CHECK: tile.load %arg0{{.*}}vector<112xf32>
  // CHECK-NEXT: tile.transpose {{.*}} columns 7
  // CHECK-NOT: vector.reduction
  // CHECK: tile.store {{.*}}vector<16xf32>
  // CHECK: tile.return

  // Each operand has tiles of its own, none of which asks where it lies.
  // CHECK-LABEL: tile.func @pointwise_
  // CHECK: tile.load %arg0
  // CHECK-NOT: tile.gather
  // CHECK: tile.load %arg1
  // CHECK-NOT: tile.gather
  // CHECK: tile.return
  func.func @main(%x: tensor<100x37xf32> {ts.name = "x"}, %i: tensor<1024x3xf32> {ts.name = "i"},
      %s: tensor<512x7xf32> {ts.name = "s"}, %a: tensor<64x5xf32> {ts.name = "a"}, %b: tensor<64x20xf32> {ts.name = "b"})
      -> (tensor<37x100xf32> {ts.name = "t"}, tensor<3x1024xf32> {ts.name = "u"},
          tensor<512xf32> {ts.name = "m"}, tensor<64x25xf32> {ts.name = "c"}) {
    %t = ts.transpose %x [1, 0] : tensor<100x37xf32>
    %u = ts.transpose %i [1, 0] : tensor<1024x3xf32>
    %m = ts.reduce max %s [1] : tensor<512x7xf32>
    %c = ts.concat %a, %b dim 1 : tensor<64x5xf32>, tensor<64x20xf32>
    return %t, %u, %m, %c : tensor<37x100xf32>, tensor<3x1024xf32>, tensor<512xf32>, tensor<64x25xf32>
  }
}
