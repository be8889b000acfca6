// Tile programs to LLVM IR, in one walk.
#pragma once

#include "codegen/TargetDesc.h"
#include "ir/tile/TileDialect.h"
#include "runtime/base/GpuEntry.h"

namespace llvm {
class Module;
}

namespace knapper {

/// Adds to `module` a function named as `func` with the signature of
/// runtime/base/KernelAbi.h that runs the programs [begin, end).
/// Operations outside the subset (docs/stack/tile.md) are reported at their
/// location; the module is then incomplete and must be dropped. Expands the
/// mathematics of `func` in place.
mlir::LogicalResult lowerToCpu(tile::FuncOp func, const TargetDesc &target,
                               llvm::Module &module);

/// The same for a GPU: a kernel whose blocks run one program or some.
/// Parameters: a global pointer, 16-byte aligned, a buffer, an i64 a symbol, a
/// global pointer to an i32 status, an i64 with the number of programs, and the
/// 128 bytes of each TMA descriptor that its matmuls need.
mlir::FailureOr<GpuEntry>
lowerToGpu(tile::FuncOp func, const TargetDesc &target, llvm::Module &module);

} // namespace knapper
