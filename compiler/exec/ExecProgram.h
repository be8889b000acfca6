//===- ExecProgram.h - A function of kernels as an exec program -----------===//
//
// The last step before packing: values become buffers, kernels launches, sizes
// scalars. Temporaries get live ranges; the runtime solves their offsets when
// sizes are known.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/kernels/KernelSet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/artefact/artefact_generated.h"
#include <memory>
#include <optional>
#include <vector>

namespace knapper {

/// A constant buffer to be filled when packing.
struct ConstantRequest {
  mlir::Value value; ///< a constant expression
  std::optional<PackedOperand> packing;
  uint32_t buffer; ///< index into Program.buffers
};

struct ExecProgram {
  std::unique_ptr<fb::ProgramT> program;
  std::vector<ConstantRequest> constants;
  /// Kernel index of (unique kernel, its schedule): what Choice.kernel means.
  std::vector<std::vector<uint32_t>> kernelIndex;
  /// Of a unique kernel's library; those come after all schedules.
  std::vector<uint32_t> vendorIndex;
};

/// Builds the program of `function`, whose body holds kernels, views and
/// constant expressions. `uses` says what each kernel op runs. Fails with a
/// diagnostic.
llvm::FailureOr<ExecProgram>
buildExecProgram(mlir::func::FuncOp function, const KernelSet &kernels,
                 const llvm::DenseMap<mlir::Operation *, KernelUse> &uses);

} // namespace knapper
