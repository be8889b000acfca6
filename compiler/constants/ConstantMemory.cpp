#include "compiler/constants/ConstantMemory.h"
#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/Evaluate.h"
#include "runtime/base/Text.h"
#include <memory>

using namespace mlir;

namespace knapper {

ConstantOrder::ConstantOrder(Value value) {
  SmallVector<Operation *> stack{value.getDefiningOp()};
  llvm::DenseMap<Operation *, bool> done; // false: on the stack, entered
  while (!stack.empty()) {
    Operation *op = stack.back();
    auto [it, inserted] = done.try_emplace(op, false);
    if (inserted) {
      for (Value operand : op->getOperands()) {
        ++uses[operand];
        if (!done.count(operand.getDefiningOp()))
          stack.push_back(operand.getDefiningOp());
      }
      continue;
    }
    stack.pop_back();
    if (!it->second) {
      it->second = true;
      ops.push_back(op);
    }
  }
  ++uses[value];
}

namespace {

// Doubles or 64-bit integers, in which the reference evaluator computes.
constexpr uint64_t kWideBytes = 8;
constexpr uint64_t kMostPerByteRead = 64;
constexpr uint64_t kMostBytes = uint64_t(1) << 48; // sums stay in 64 bits

struct Size {
  uint64_t elements, bytes;
};

Expected<Size> sizeOf(Value value) {
  Expected<ts::Shape> shape =
      ts::evaluateShape(value.getType(), {}, kMostBytes);
  if (!shape) {
    Error error = shape.takeError();
    error.where = ts::locationText(value.getLoc());
    return error;
  }
  uint64_t elements = *ts::elementCountOf(*shape);
  return Size{elements,
              elements * byteSize(*ts::dtypeOf(ts::elementTypeOf(value)))};
}

/// Memory that values share, counted as long as one of them lives.
struct Held {
  Held(uint64_t &live, uint64_t bytes) : live(live), bytes(bytes) {
    live += bytes;
  }
  ~Held() { live -= bytes; }
  uint64_t &live, bytes;
};

/// Results that are strides over their operand, or over the file.
bool isView(Operation *op) {
  if (auto constant = dyn_cast<ts::ConstantOp>(op))
    return constant.getValue().isSplat();
  return isa<ts::WeightOp, ts::TransposeOp, ts::BroadcastOp, ts::SliceOp>(op);
}
/// Evaluated in the element type itself.
bool isPlain(Operation *op) {
  return isView(op) || isa<ts::ConstantOp, ts::ReshapeOp, ts::DimCastOp,
                           ts::ConcatOp, ts::PadOp>(op);
}

} // namespace

Expected<uint64_t> memoryOfConstant(Value value, uint64_t allowance) {
  ConstantOrder order(value);
  uint64_t live = 0, peak = 0, read = 0;
  Location worst = value.getLoc();
  llvm::DenseMap<Value, std::shared_ptr<Held>> values;
  auto reach = [&](uint64_t bytes, Operation *op) {
    if (bytes <= peak)
      return;
    peak = bytes;
    worst = op->getLoc();
  };
  for (Operation *op : order.ops) {
    SmallVector<std::shared_ptr<Held>> operands;
    uint64_t work = 0;
    bool plain = isPlain(op);
    for (Value operand : op->getOperands()) {
      ASSIGN_OR_RETURN(Size size, sizeOf(operand));
      // A dense copy of a view, and the numbers widened.
      if (!isView(op))
        work += size.bytes;
      if (!plain)
        work += size.elements * kWideBytes;
      operands.push_back(values[operand]);
      if (--order.uses[operand] == 0)
        values.erase(operand);
    }
    std::shared_ptr<Held> shared =
        isView(op) && !operands.empty() ? operands.front() : nullptr;
    for (Value result : op->getResults()) {
      ASSIGN_OR_RETURN(Size size, sizeOf(result));
      if (isa<ts::WeightOp, ts::ConstantOp>(op) && !isView(op))
        read += size.bytes;
      if (isa<ts::WeightOp>(op))
        read += size.bytes;
      if (!plain)
        work += size.elements * kWideBytes;
      values[result] =
          isView(op) ? shared : std::make_shared<Held>(live, size.bytes);
      if (!order.uses.count(result))
        values.erase(result);
    }
    reach(live + work, op);
  }
  ASSIGN_OR_RETURN(Size size, sizeOf(value));
  reach(live + size.bytes, value.getDefiningOp());
  uint64_t limit = allowance + kMostPerByteRead * read;
  if (peak > limit)
    return userError(
        cat("a value that depends on constants only takes ", peak >> 20,
            " MB to compute while the model is "
            "compiled, the limit is ",
            limit >> 20),
        ts::locationText(worst), "make it smaller, or give it as an input");
  return peak;
}

MemoryGate::Pass::Pass(MemoryGate &gate, uint64_t bytes)
    : gate(gate), bytes(bytes) {
  std::unique_lock lock(gate.mutex);
  gate.left.wait(lock, [&] {
    return gate.inUse == 0 || gate.inUse + bytes <= gate.limit;
  });
  gate.inUse += bytes;
}
MemoryGate::Pass::~Pass() {
  std::lock_guard lock(gate.mutex);
  gate.inUse -= bytes;
  gate.left.notify_all();
}

} // namespace knapper
