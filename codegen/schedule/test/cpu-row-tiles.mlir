// RUN: knapper compile %s --start-from simplify --stop-after tile --target cpu --isa x86-64-v4 --no-cache | FileCheck %s

// Code for the numbers of rows that register tiles can have, and for no other:
// ten tiles of six rows and one of four, which takes the same code; ten of six
// and one of two, which has its own; three rows alone.
module attributes {ts.files = ["rows"], ts.symbols = []} {
  // CHECK-LABEL: tile.func @cpu_matmul
  // CHECK: tile.mainloop{{.*}}vector<6x64xf32>
  // CHECK-NOT: tile.mainloop
  // CHECK-LABEL: tile.func @cpu_matmul
  // CHECK: tile.mainloop{{.*}}vector<3x64xf32>
  // CHECK: tile.mainloop{{.*}}vector<6x64xf32>
  // CHECK-NOT: tile.mainloop
  // CHECK-LABEL: tile.func @cpu_matmul
  // CHECK: tile.mainloop{{.*}}vector<3x64xf32>
  // CHECK-NOT: tile.mainloop
  func.func @main(%a: tensor<64x128xf32>, %b: tensor<62x128xf32>, %c: tensor<3x128xf32>, %w: tensor<128x256xf32>)
      -> (tensor<64x256xf32>, tensor<62x256xf32>, tensor<3x256xf32>) {
    %0 = ts.dot %a, %w batch [] x [] contract [1] x [0] : tensor<64x128xf32>, tensor<128x256xf32>
    %1 = ts.dot %b, %w batch [] x [] contract [1] x [0] : tensor<62x128xf32>, tensor<128x256xf32>
    %2 = ts.dot %c, %w batch [] x [] contract [1] x [0] : tensor<3x128xf32>, tensor<128x256xf32>
    return %0, %1, %2 : tensor<64x256xf32>, tensor<62x256xf32>, tensor<3x256xf32>
  }
}
