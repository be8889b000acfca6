//===- ConstantMemory.h - What evaluating a constant takes ----------------===//
#pragma once

#include "mlir/IR/Value.h"
#include "runtime/base/Error.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace knapper {

/// The ops of a constant expression, operands before users, and how often each
/// value is read (the expression's own value once).
struct ConstantOrder {
  explicit ConstantOrder(mlir::Value value);

  llvm::SmallVector<mlir::Operation *> ops;
  llvm::DenseMap<mlir::Value, unsigned> uses;
};

/// Bytes that evaluateConstant allocates at most at one time, with a dense copy
/// of the value. UserError when it is more than a model of its weights may ask
/// for: `allowance`, and 64 times what the expression reads.
Expected<uint64_t> memoryOfConstant(mlir::Value value,
                                    uint64_t allowance = uint64_t(4) << 30);

/// Lets threads evaluate constants at the same time as long as they take no
/// more than `limit` together, or alone.
class MemoryGate {
public:
  explicit MemoryGate(uint64_t limit) : limit(limit) {}

  /// Waits for room, which it holds as long as it lives.
  class Pass {
  public:
    Pass(MemoryGate &gate, uint64_t bytes);
    ~Pass();
    Pass(const Pass &) = delete;

  private:
    MemoryGate &gate;
    uint64_t bytes;
  };

private:
  uint64_t limit, inUse = 0;
  std::mutex mutex;
  std::condition_variable left;
};

} // namespace knapper
