//===- Cost.h - Modelled time of a set of ops run as one launch -----------===//
//
// seconds = max(arithmetic, memory) + launch
//   arithmetic  matmuls (dot, conv, attention) at the machine's peak, other
//               operations at half of it (no fused multiply-add)
//   memory      bytes read and written once the ops run as one kernel; each
//               tensor at cache bandwidth when it fits the cache, else at that
//               of memory
//
// What is read follows from the ops' index maps, from the results back to the
// inputs: each result element is computed once and pulls what it needs, so
// an op whose value is needed at several places, or in several passes over a
// row, is counted as often as it is evaluated. Values kept by the kernel
// (accumulators of dot, reductions' row values) are computed once. Memory is
// read once for all passes over a row, and once for all reads of elements that
// fit the cache together.
//
// Sizes: symbols get one representative value each (`representativeSizes`):
// a symbol that is the leading dim of a function argument of rank two or more
// counts 4, any other 128; both moved into the declared range and up to a
// multiple of the declared divisor.
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

struct Cost {
  double matmulFlops = 0, otherFlops = 0;
  double bytesRead = 0, bytesWritten = 0;
  double seconds = 0;
};

class CostModel {
public:
  CostModel(const Machine &machine, SizeBinding sizes)
      : machine(machine), sizes(std::move(sizes)) {}

  Cost cost(const OpSet &set);
  /// Of a formed kernel.
  Cost cost(ts::KernelOp kernel);

  double elements(mlir::Type type);
  double bytes(mlir::Type type);
  double value(ts::Dim dim);

private:
  const Machine machine;
  SizeBinding sizes;
  llvm::DenseMap<mlir::Type, double> counts;
};

/// Operations and bytes of a kernel as sizes, for the launch's record: matmuls
/// count two operations; inputs are read and results written once.
ts::Dim kernelFlops(ts::KernelOp kernel);
ts::Dim kernelBytes(ts::KernelOp kernel);

} // namespace knapper::fusion
