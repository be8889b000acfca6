#include "codegen/schedule/core/ShallowProduct.h"
#include "codegen/schedule/core/OperandCoord.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace knapper;
using ts::Dim;

bool knapper::isShallowProduct(ts::KernelOp kernel, const TargetDesc &target) {
  auto dots = kernel.getBody().getOps<ts::DotOp>();
  if (!target.simt || dots.empty())
    return false;
  // Elements are computed at one place of all results.
  if (!llvm::all_equal(llvm::map_range(
          kernel.getResultTypes(), [](Type type) { return ts::dimsOf(type); })))
    return false;
  ts::DotOp dot = *dots.begin();
  Type element = ts::elementTypeOf(dot.getLhs());
  if (!isa<Float32Type, Float16Type, BFloat16Type>(element) ||
      element != ts::elementTypeOf(dot.getRhs()))
    return false;
  Dim one = Dim::constant(kernel.getContext(), 1), depth = one;
  auto freeOf = [&](Value side, ArrayRef<int64_t> batch,
                    ArrayRef<int64_t> contract) {
    Dim size = one;
    for (auto [d, dim] : llvm::enumerate(ts::dimsOf(side)))
      if (!llvm::is_contained(batch, int64_t(d)) &&
          !llvm::is_contained(contract, int64_t(d)))
        size = size * dim;
    return representative(size);
  };
  for (int64_t d : dot.getLhsContract())
    depth = depth * ts::dimOf(dot.getLhs(), d);
  int64_t rows = freeOf(dot.getLhs(), dot.getLhsBatch(), dot.getLhsContract()),
          columns =
              freeOf(dot.getRhs(), dot.getRhsBatch(), dot.getRhsContract()),
          fewer = std::min(rows, columns);
  // The less of a block's tile the product fills, the deeper it may be.
  constexpr int64_t rowsOfGemv = 4, low = 16, half = 64;
  int64_t deepest = fewer <= low ? 32 : fewer < half ? 16 : 8;
  int64_t lanes = 16 / ts::elementBytes(element);
  std::optional<int64_t> k = depth.asConstant();
  if (!k || *k < 1 || *k > deepest)
    return false;
  bool isWhole = *k % lanes == 0;
  return !isWhole || (lanes == 4 && rows > rowsOfGemv);
}

Value knapper::emitShallowProduct(ElementEmitter &e, ts::DotOp dot,
                                  const Coord &at) {
  int64_t depth = 1;
  SmallVector<int64_t> extents;
  for (int64_t d : dot.getLhsContract()) {
    extents.push_back(*ts::dimOf(dot.getLhs(), d).asConstant());
    depth *= extents.back();
  }
  ts::Indexing indexing = dot.indexing();
  Value sum = e.splat(e.builder.getF32Type(), at.lanes, 0);
  for (int64_t k = 0; k < depth; ++k) {
    SmallVector<Value> contracted(extents.size());
    int64_t rest = k;
    for (size_t i = extents.size(); i-- > 0; rest /= extents[i])
      contracted[i] = e.constant(rest % extents[i]);
    auto read = [&](unsigned i) -> Value {
      Value value =
          e.emit(dot->getOperand(i), operandCoord(at, indexing, i, contracted));
      return value ? e.widen(value, at.lanes) : Value();
    };
    Value a = read(0), x = a ? read(1) : Value();
    if (!x)
      return {};
    sum =
        at.lanes
            ? vector::FMAOp::create(e.builder, e.location, a, x, sum)
                  .getResult()
            : math::FmaOp::create(e.builder, e.location, a, x, sum).getResult();
  }
  return sum;
}
