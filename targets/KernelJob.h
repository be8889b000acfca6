//===- KernelJob.h - Kernels to compile, and the code they become ---------===//
#pragma once

#include "codegen/TargetDesc.h"
#include "runtime/base/Error.h"
#include "runtime/base/GpuEntry.h"

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

/// Code of a kernel that somebody else wrote and compiled.
struct GivenCode {
  std::string path;                        ///< of its file, for messages
  std::string code;                        ///< an ELF object file, or PTX text
  std::string entry;                       ///< the function in it
  GpuEntry launch;                         ///< GPUs: what a launch of it needs
  uint32_t numBuffers = 0, numSymbols = 0; ///< of the kernel it stands for
};

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
  /// Instead of what `build` makes; the caller keeps it alive.
  const GivenCode *given = nullptr;
  /// An estimate of its code, in any unit: only the order counts. The longest
  /// are begun first, so that threads that end with short ones wait less.
  unsigned length = 0;
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
