// REQUIRES: ptxas
// RUN: knapper-translate --tile-to-ptx %S/ptx.mlir -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s

// CHECK-COUNT-27: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
