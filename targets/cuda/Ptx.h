// Tile programs to PTX text. Nothing is run here: a driver compiles and loads
// it.
#pragma once

#include "codegen/TargetDesc.h"
#include "ir/tile/TileDialect.h"
#include "runtime/base/Error.h"
#include "runtime/base/GpuEntry.h"

#include <map>
#include <string>

namespace knapper {

struct PtxModule {
  std::string text;
  std::map<std::string, GpuEntry> kernels; // what each launch needs
};

/// All tile.func ops of `source`, in place. MLIR diagnostics tell more than the
/// error when a program is outside the subset.
Expected<PtxModule> emitPtx(mlir::ModuleOp source, const TargetDesc &target);

} // namespace knapper
