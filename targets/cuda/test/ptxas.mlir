// REQUIRES: ptxas
// The assembler takes every kernel, and none of them spills.
// RUN: knapper-translate --tile-to-ptx %S/rows.mlir -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s
// RUN: knapper-opt %S/kernels.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s

// CHECK-COUNT-4: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// RUN: knapper-opt %S/matmul.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=MATMUL

// No wgmma waits for another one (C7510 and its kin), none spills.
// MATMUL-NOT: C75
// MATMUL-COUNT-28: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// MATMUL-NOT: C75
// RUN: knapper-opt %S/attention.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=ATTENTION

// RUN: knapper-opt %S/conv.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=CONV

// CONV-NOT: C75
// CONV-COUNT-4: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// CONV-NOT: C75

// ATTENTION-NOT: C75
// ATTENTION-COUNT-9: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// ATTENTION-NOT: C75
// RUN: knapper-opt %S/mma-sync.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_80 | knapper-translate --tile-to-ptx --isa=sm_80 -o %t.ptx
// RUN: %ptxas -arch=sm_80 -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: knapper-opt %S/mma-sync.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_86 | knapper-translate --tile-to-ptx --isa=sm_86 -o %t.ptx
// RUN: %ptxas -arch=sm_86 -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=WARPS
// RUN: knapper-opt %S/mma-sync.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_89 | knapper-translate --tile-to-ptx --isa=sm_89 -o %t.ptx
// RUN: %ptxas -arch=sm_89 -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=WARPS

// WARPS-COUNT-6: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// RUN: knapper-opt %S/tf32.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_90a | knapper-translate --tile-to-ptx -o %t.ptx
// RUN: %ptxas -arch=sm_90a -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=TF32
// RUN: knapper-opt %S/tf32.mlir --form-kernels | knapper-translate --kernels-to-tile --isa=sm_80 | knapper-translate --tile-to-ptx --isa=sm_80 -o %t.ptx
// RUN: %ptxas -arch=sm_80 -v %t.ptx -o %t.cubin 2>&1 | FileCheck %s --check-prefix=TF32

// TF32-NOT: C75
// TF32-COUNT-3: 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
// TF32-NOT: C75
