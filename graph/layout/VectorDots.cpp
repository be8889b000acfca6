#include "graph/layout/VectorDots.h"

#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_VECTORDOTS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

static bool isVectorDot(DotOp op) {
  if (!isa<FloatType>(elementTypeOf(op.getLhs())))
    return false;
  for (auto [d, dim] : llvm::enumerate(dimsOf(op.getRhs())))
    if (!llvm::is_contained(op.getRhsBatch(), int64_t(d)) &&
        !llvm::is_contained(op.getRhsContract(), int64_t(d)) &&
        !dim.isConstant(1))
      return false;
  // What contracts nothing is a product alone.
  return !op.getRhsContract().empty();
}

static void reduceDot(DotOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Type element = elementTypeOf(op.getLhs());
  auto convert = [&](Value x, Type to) -> Value {
    return elementTypeOf(x) == to
               ? x
               : ConvertOp::create(b, loc, withElement(x.getType(), to), x);
  };
  Type compute =
      element.getIntOrFloatBitWidth() < 32 ? b.getF32Type() : element;
  Value x = convert(op.getLhs(), compute), y = convert(op.getRhs(), compute);
  SmallVector<Dim> dims = dimsOf(x), kept;
  SmallVector<int64_t> map; // of y's dims that stay
  SmallVector<Dim> own = dimsOf(y);
  for (int64_t d = 0, rank = own.size(); d < rank; ++d) {
    auto find = [&](ArrayRef<int64_t> mine, ArrayRef<int64_t> theirs) {
      auto *at = llvm::find(mine, d);
      if (at == mine.end())
        return false;
      kept.push_back(own[d]);
      map.push_back(theirs[at - mine.begin()]);
      return true;
    };
    if (!find(op.getRhsBatch(), op.getLhsBatch()))
      find(op.getRhsContract(), op.getLhsContract());
  }
  y = makeReshape(b, loc, y, kept);
  // A broadcast keeps the order of dims.
  SmallVector<int64_t> order =
      llvm::to_vector(llvm::seq<int64_t>(0, map.size()));
  llvm::sort(order, [&](int64_t i, int64_t j) { return map[i] < map[j]; });
  y = makeTranspose(b, loc, y, order);
  llvm::sort(map);
  y = makeBroadcast(b, loc, y, dims, map);
  SmallVector<int64_t> reduced(op.getLhsContract());
  llvm::sort(reduced);
  Value sum = ReduceOp::create(b, loc, ReduceKind::add,
                               MulOp::create(b, loc, x, y), reduced, false);
  sum = convert(sum, elementTypeOf(op.getResult()));
  // Batch dims come first.
  SmallVector<int64_t> places, left;
  for (int64_t d = 0, rank = dims.size(); d < rank; ++d)
    if (!llvm::is_contained(reduced, d))
      left.push_back(d);
  auto placeOf = [&](int64_t d) { return llvm::find(left, d) - left.begin(); };
  for (int64_t d : op.getLhsBatch())
    places.push_back(placeOf(d));
  for (int64_t d : left)
    if (!llvm::is_contained(op.getLhsBatch(), d))
      places.push_back(placeOf(d));
  sum = makeTranspose(b, loc, sum, places);
  op.replaceAllUsesWith(makeReshape(b, loc, sum, dimsOf(op.getResult())));
  op.erase();
}

void knapper::reduceVectorDots(func::FuncOp function) {
  // (Those of a recurrence's body stay.)
  for (DotOp op : SmallVector<DotOp>(function.getOps<DotOp>()))
    if (isVectorDot(op))
      reduceDot(op);
}

namespace {
struct VectorDotsPass : knapper::impl::VectorDotsBase<VectorDotsPass> {
  void runOnOperation() override { reduceVectorDots(getOperation()); }
};
} // namespace
