// RUN: knapper-opt --quantize-weights="bits=8 group=32 least=1" %s | FileCheck %s --check-prefixes=CHECK,BYTES
// RUN: knapper-opt --quantize-weights="bits=4 group=32 least=1" %s | FileCheck %s --check-prefixes=CHECK,NIBBLES
// RUN: knapper-opt --quantize-weights="bits=4 group=32 least=1 asymmetric" %s | FileCheck %s --check-prefix=ZERO
// RUN: knapper-opt --quantize-weights="bits=8 group=32" %s | FileCheck %s --check-prefix=SMALL

// A transposed matrix whose K is no multiple of the group.
// CHECK-LABEL: @matmul
// CHECK: %[[W:.*]] = ts.weight
// CHECK: %[[T:.*]] = ts.transpose %[[W]]
// CHECK: %[[P:.*]] = ts.pad {{.*}}%[[T]]
// CHECK: %[[G:.*]] = ts.reshape %[[P]] {{.*}} to tensor<2x32x24xf32>
// BYTES: %[[A:.*]] = ts.abs %[[G]]
// BYTES: ts.reduce max %[[A]]
// BYTES: ts.constant dense<1.270000e+02>
// NIBBLES: ts.reduce max %[[G]]
// NIBBLES: ts.reduce min %[[G]]
// NIBBLES: ts.constant dense<-8.000000e+00>
// CHECK: %[[S:.*]] = ts.select
// CHECK: %[[R:.*]] = ts.round_even
// BYTES: ts.convert {{.*}} to tensor<2x32x24xi8>
// BYTES: %[[Q:.*]] = ts.slice {{.*}} to tensor<40x24xi8>
// BYTES: ts.scaled_dot %arg0, %[[Q]] scale %[[S]] group 32
// NIBBLES: %[[Q:.*]] = ts.slice {{.*}} to tensor<40x24xi4>
// NIBBLES: ts.scaled_dot %arg0, %[[Q]] scale %[[S]] group 32
// ZERO-LABEL: @matmul
// ZERO: ts.scaled_dot %arg0, {{.*}} zero {{.*}} group 32
// SMALL-LABEL: @matmul
// SMALL: ts.dot
func.func @matmul(%x: tensor<?x40xf32, #ts.dims<"m", 40>>) -> tensor<?x24xf32, #ts.dims<"m", 24>> {
  %w = ts.weight <0, 0, 3840, "w"> : tensor<24x40xf32>
  %y = ts.dot %x, %w batch [] x [] contract [1] x [1] : tensor<?x40xf32, #ts.dims<"m", 40>>, tensor<24x40xf32>
  return %y : tensor<?x24xf32, #ts.dims<"m", 24>>
}

// Two activations, another element type, a batch: floats stay.
// CHECK-LABEL: @stays
// CHECK-COUNT-3: ts.dot
// CHECK-NOT: ts.scaled_dot
func.func @stays(%x: tensor<8x40xf32>, %y: tensor<40x24xf32>, %h: tensor<8x40xf16>, %b: tensor<2x8x40xf32>) -> (tensor<8x24xf32>, tensor<8x24xf16>, tensor<2x8x24xf32>) {
  %w = ts.weight <0, 0, 1920, "w"> : tensor<40x24xf16>
  %v = ts.weight <0, 0, 7680, "v"> : tensor<2x40x24xf32>
  %0 = ts.dot %x, %y batch [] x [] contract [1] x [0] : tensor<8x40xf32>, tensor<40x24xf32>
  %1 = ts.dot %h, %w batch [] x [] contract [1] x [0] : tensor<8x40xf16>, tensor<40x24xf16>
  %2 = ts.dot %b, %v batch [0] x [0] contract [2] x [1] : tensor<2x8x40xf32>, tensor<2x40x24xf32>
  return %0, %1, %2 : tensor<8x24xf32>, tensor<8x24xf16>, tensor<2x8x24xf32>
}
