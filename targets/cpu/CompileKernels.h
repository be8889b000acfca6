// Tile programs to loadable images, on all cores.
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"
#include "targets/cpu/Link.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
}

namespace knapper {

/// One kernel to compile. `build` makes a module with tile.func ops (one of
/// them called `name`, which must be unique among the jobs) in the given
/// context, for the given target; null after a diagnostic means failure. It is
/// called once an instruction set, on any thread, with a context that no one
/// else uses.
struct KernelJob {
  std::string name;
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(mlir::MLIRContext &,
                                                  const TargetDesc &)>
      build;
};

/// CPU seconds, by stage.
struct CompileTimes {
  double build = 0, lower = 0, optimise = 0, emit = 0;
  double total() const { return build + lower + optimise + emit; }
};

struct CompiledImage {
  std::string isa;
  LinkedImage image;              // every job's functions are entries
  CompileTimes times;             // sum over kernels
  std::vector<CompileTimes> jobs; // as the jobs were given
  double linkSeconds = 0;
};

/// Compiles all jobs for each instruction set on `threads` threads. `dialects`
/// (may be null) is what `build` needs beside tile, arith, math, scf, vector.
/// The error names the kernel.
Expected<std::vector<CompiledImage>>
compileKernels(std::span<const KernelJob> jobs,
               std::span<const TargetDesc> targets, unsigned threads,
               const mlir::DialectRegistry *dialects = nullptr);

} // namespace knapper
