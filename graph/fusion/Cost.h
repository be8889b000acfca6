//===- Cost.h - Modelled time of a set of ops run as one launch -----------===//
//
// seconds = max(arithmetic, memory) + launch
//   arithmetic  matmuls (dot, conv, attention) at the machine's peak, other
//               operations at half of it (no fused multiply-add)
//   memory      bytes read and written once the ops run as one kernel; each
//               tensor at cache bandwidth when it fits the cache, else at that
//               of memory
//
// Counting follows the ops' index maps from the results back to the inputs.
// Each result element is computed once and pulls the operand elements that it
// needs. An op whose value is needed at several places, or in several passes
// over a row, counts as often as it is evaluated. Values that the kernel keeps
// (accumulators of a dot, row values of a reduction) count once. A row is read
// from memory once for all passes. Elements that fit the cache together are
// read from memory once.
//
// Sizes: each symbol gets one representative value (`representativeSizes`). A
// symbol that is the leading dim of a function argument of rank two or more is
// 4, any other is 128. Both are clamped to the declared range, then rounded up
// to a multiple of the declared divisor.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/config/Machine.h"
#include "ir/tensor/Dialect.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir {
class ModuleOp;
namespace func {
class FuncOp;
}
} // namespace mlir

namespace knapper::fusion {

using config::Machine;

using SizeBinding = llvm::StringMap<int64_t>;

/// One value a symbol of `function`, as the head of this file says.
SizeBinding representativeSizes(mlir::func::FuncOp function);

/// Ops that run as one launch. Order: producers first.
struct OpSet {
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallSetVector<mlir::Value, 8> inputs;  ///< used, not defined here
  llvm::SmallSetVector<mlir::Value, 8> outputs; ///< used elsewhere

  explicit OpSet(llvm::ArrayRef<mlir::Operation *> ops);
  bool contains(mlir::Operation *op) const {
    return op && members.contains(op);
  }

private:
  llvm::SmallDenseSet<mlir::Operation *, 16> members;
};

/// Operations, bytes, and the modelled seconds of one launch.
struct Cost {
  double matmulFlops = 0, otherFlops = 0;
  double bytesRead = 0, bytesWritten = 0;
  double seconds = 0;
};

/// The model of the head of this file, for one machine and one binding of the
/// symbols. Caches element counts, so one thread uses it at a time.
class CostModel {
public:
  CostModel(const Machine &machine, SizeBinding sizes)
      : machine(machine), sizes(std::move(sizes)) {}

  Cost cost(const OpSet &set);
  /// The same for a formed kernel.
  Cost cost(ts::KernelOp kernel);

  double elements(mlir::Type type);
  double bytes(mlir::Type type);
  double value(ts::Dim dim);

private:
  const Machine machine;
  SizeBinding sizes;
  llvm::DenseMap<mlir::Type, double> counts;
};

/// Operations and bytes of a kernel as formulas of its symbols, for the
/// artefact (reports, `knapper_profile`). A multiply-add is two operations.
/// Inputs are read once and results written once.
ts::Dim kernelFlops(ts::KernelOp kernel);
ts::Dim kernelBytes(ts::KernelOp kernel);

} // namespace knapper::fusion
