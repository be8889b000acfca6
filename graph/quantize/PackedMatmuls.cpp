#include "graph/quantize/PackedMatmuls.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/ScaledDot.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_PACKEDMATMULS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

/// [K, N] integers of four bits as [N, ceil(K / 2)] bytes.
static Value packNibbles(OpBuilder &b, Location loc, Value q) {
  MLIRContext *context = b.getContext();
  Type i32 = b.getI32Type();
  q = ConvertOp::create(b, loc, withElement(q.getType(), i32), q);
  q = makeTranspose(b, loc, q, {1, 0});
  SmallVector<Dim> dims = dimsOf(q);
  Dim zero = dims[0].like(0);
  int64_t depth = *dims[1].asConstant();
  if (depth % 2) {
    Value none =
        scalarOf(b, makeSplat(b, loc, cast<RankedTensorType>(q.getType()), 0));
    q = PadOp::create(b, loc, q, none, dimArray(context, {zero, zero}),
                      dimArray(context, {zero, zero.like(1)}));
  }
  int64_t pairs = (depth + 1) / 2;
  SmallVector<Dim> apart{dims[0], zero.like(pairs), zero.like(2)},
      bytes{dims[0], zero.like(pairs)};
  q = makeReshape(b, loc, q, apart);
  auto half = [&](int64_t which) {
    return makeReshape(
        b, loc, makeSlice(b, loc, q, 2, zero.like(which), zero.like(1)), bytes);
  };
  Value low = half(0), high = half(1);
  auto number = [&](double value) {
    return makeSplat(b, loc, cast<RankedTensorType>(low.getType()), value);
  };
  low = AndOp::create(b, loc, low, number(15));
  Value byte =
      AddOp::create(b, loc, MulOp::create(b, loc, high, number(16)), low);
  return ConvertOp::create(
      b, loc, withElement(byte.getType(), b.getIntegerType(8)), byte);
}

static void pack(ScaledDotOp op, int64_t few,
                 llvm::function_ref<bool(PackedDotOp)> takes) {
  auto matrix = cast<RankedTensorType>(op.getWeight().getType());
  if (op.getZero() || !matrix.hasStaticShape() || matrix.getNumElements() == 0)
    return;
  SmallVector<Dim> rows = dimsOf(op.getInput());
  rows.pop_back();
  std::optional<int64_t> known = product(op.getContext(), rows).asConstant();
  if (known && *known > few)
    return;
  OpBuilder b(op);
  Location loc = op.getLoc();
  bool nibbles = matrix.getElementType().isInteger(4);
  Value weight = nibbles ? packNibbles(b, loc, op.getWeight())
                         : makeTranspose(b, loc, op.getWeight(), {1, 0});
  Value scale = makeTranspose(b, loc, op.getScale(), {1, 0});
  Value input = op.getInput();
  if (auto widened = input.getDefiningOp<ConvertOp>())
    if (Type narrow = elementTypeOf(widened.getInput());
        narrow.isF16() || narrow.isBF16())
      input = widened.getInput();
  auto packed = PackedDotOp::create(b, loc, input, weight, scale, Value(),
                                    uint64_t(nibbles ? 4 : 8), op.getGroup());
  if (!takes(packed)) {
    packed.erase();
    return; // what was made for it has no users
  }
  op.replaceAllUsesWith(packed.getResult());
  op.erase();
}

void knapper::packMatmuls(func::FuncOp function, int64_t few,
                          llvm::function_ref<bool(PackedDotOp)> takes) {
  function.walk([&](ScaledDotOp op) { pack(op, few, takes); });
}

static void expand(PackedDotOp op, int64_t few) {
  SmallVector<Dim> rows = dimsOf(op.getInput());
  rows.pop_back();
  Dim n = dimOf(op.getWeight(), 0), m = product(n.context(), rows);
  Dim many = m.floorDiv(m.like(few + 1)).min(m.like(1));
  if (op.getExpanded() || many.isConstant(0))
    return;
  OpBuilder b(op);
  Value weight = expandedWeight(b, op, n * many);
  Type element = elementTypeOf(op.getInput());
  if (!element.isF32())
    weight = ConvertOp::create(b, op.getLoc(),
                               withElement(weight.getType(), element), weight);
  op.getExpandedMutable().assign(weight);
}

void knapper::expandForManyRows(func::FuncOp function, int64_t few) {
  function.walk([&](PackedDotOp op) { expand(op, few); });
}

namespace {
struct PackedMatmulsPass : knapper::impl::PackedMatmulsBase<PackedMatmulsPass> {
  using PackedMatmulsBase::PackedMatmulsBase;
  void runOnOperation() override {
    packMatmuls(getOperation(), few, [](PackedDotOp) { return true; });
  }
};
} // namespace
