// Tile programs to loadable images, on all cores.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

/// Compiles all jobs for each instruction set on `threads` threads. `dialects`
/// (may be null) is what `build` needs beside tile, arith, math, scf, vector.
/// The error names the kernel.
Expected<std::vector<CompiledImage>>
compileKernels(std::span<const KernelJob> jobs,
               std::span<const TargetDesc> targets, unsigned threads,
               const mlir::DialectRegistry *dialects = nullptr);

} // namespace knapper
