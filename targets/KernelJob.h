//===- KernelJob.h - Kernels to compile, and the code they become ---------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <map>
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

/// What a driver loads.
struct KernelImage {
  std::string code; ///< an ELF shared object, or PTX text
  /// Function -> what the driver needs to launch it: the offset from the base
  /// (CPUs), or GpuEntry::number().
  std::map<std::string, uint64_t> entries;
};

struct CompiledImage {
  std::string isa;
  KernelImage image;              ///< every job's functions are entries
  CompileTimes times;             ///< sum over kernels
  std::vector<CompileTimes> jobs; ///< as the jobs were given
  double linkSeconds = 0;
};

} // namespace knapper
