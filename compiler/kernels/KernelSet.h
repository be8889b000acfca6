//===- KernelSet.h - Equal kernels once -----------------------------------===//
//
// The kernels of a module in canonical form: symbols renamed k0, k1, ... in
// order of appearance, locations dropped, operands as typed arguments. Equal
// kernels of a model (the layers of a transformer) become one entry, which is
// scheduled and compiled once; each launch keeps what its symbols stand for.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/schedule/Schedule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <string>
#include <vector>

namespace knapper {

struct UniqueKernel {
  /// func.func @kernel around one ts.kernel, in canonical symbols.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ts::KernelOp kernel; ///< inside `module`
  std::vector<std::string> symbols;
  std::string signature; ///< hex of a hash, equal in every process
  std::string bytecode;  ///< of `module`, for other contexts
  llvm::SmallVector<Schedule> schedules;
};

struct KernelUse {
  unsigned kernel;                     ///< index into the set
  llvm::SmallVector<ts::Dim> bindings; ///< per symbol of the unique kernel
};

class KernelSet {
public:
  /// Adds the kernel or finds its equal.
  KernelUse add(ts::KernelOp kernel);
  /// Which of the operands are constants is part of a kernel's identity, since
  /// schedules read packed constants: the attribute `ts.constants` says it.
  std::vector<UniqueKernel> kernels;

private:
  llvm::StringMap<unsigned> bySignature;
};

/// The dim in terms of the launch: canonical symbols replaced.
ts::Dim bind(ts::Dim dim, const UniqueKernel &kernel, const KernelUse &use);

} // namespace knapper
