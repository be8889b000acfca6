#include "codegen/schedule/core/ShallowMatmul.h"
#include "codegen/schedule/core/OperandCoord.h"
#include "ir/config/GpuTimes.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace knapper;
using ts::Dim;

/// Whether many small matmuls of 16 bits take longer by warpgroups than by
/// their elements, in modelled cycles of an SM. A tile of shallow depth
/// is most of a microsecond, whatever part of it the matmul fills; an element
/// is as many accesses as its warp has lines to read.
static bool fillsNoTiles(ts::DotOp dot, int64_t batch, int64_t rows,
                         int64_t columns, int64_t depth,
                         const TargetDesc &target) {
  constexpr config::ShallowTimes times = config::kH200Shallow;
  constexpr int64_t deepest = 64, ofRuns = 16, shortRow = 64, warp = 32,
                    line = 128, tile = 64, bytes = 2;
  // (A thread has eight elements of longer rows: of more depth it would read
  // more at once than it has registers for.)
  if (!target.wgmma || batch == 1 ||
      depth > (columns <= shortRow ? deepest : ofRuns))
    return false;
  // Lines of a warp's elements, which are so many neighbours along the side.
  auto linesOf = [&](Value side, ArrayRef<int64_t> batched,
                     ArrayRef<int64_t> contract,
                     int64_t neighbours) -> std::optional<int64_t> {
    int64_t last = ts::rankOf(side) - 1;
    // What is computed of the operand would be so again for each element.
    if (!isa<BlockArgument>(side) || llvm::is_contained(batched, last) ||
        contract.size() != 1 || ts::rankOf(side) > int64_t(batched.size()) + 2)
      return std::nullopt;
    int64_t stride = contract[0] == last ? depth : 1;
    return std::clamp<int64_t>(neighbours * stride * bytes / line, 1,
                               neighbours);
  };
  int64_t beside = std::clamp<int64_t>(columns, 1, warp);
  std::optional<int64_t> left = linesOf(dot.getLhs(), dot.getLhsBatch(),
                                        dot.getLhsContract(),
                                        llvm::divideCeil(warp, beside)),
                         right = linesOf(dot.getRhs(), dot.getRhsBatch(),
                                         dot.getRhsContract(), beside);
  if (!left || !right)
    return false;
  int64_t warps = llvm::divideCeil(batch * rows * columns, warp),
          tiles = batch * llvm::divideCeil(rows, tile) *
                  llvm::divideCeil(columns, tile);
  // (Of fewer tiles than SMs the kernel by warpgroups is as fast.)
  if (std::min(rows, columns) > tile || tiles < 2 * int64_t(target.cores))
    return false;
  int64_t ofWarp = depth * (*left + *right) + times.store;
  return times.elements +
             int64_t(llvm::divideCeil(warps, target.cores)) * ofWarp <
         times.tiles +
             int64_t(llvm::divideCeil(tiles, target.cores)) * times.tile;
}

bool knapper::isShallowMatmul(ts::KernelOp kernel, const TargetDesc &target) {
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
  // The less of a block's tile the matmul fills, the deeper it may be: of the
  // tiles' sizes, no figures of a card.
  constexpr int64_t rowsOfGemv = 4, low = 16, half = 64;
  int64_t deepest = fewer <= low ? 32 : fewer < half ? 16 : 8;
  int64_t lanes = 16 / ts::elementBytes(element);
  std::optional<int64_t> k = depth.asConstant();
  if (!k || *k < 1)
    return false;
  Dim batch = one;
  for (int64_t d : dot.getLhsBatch())
    batch = batch * ts::dimOf(dot.getLhs(), d);
  if (ts::elementBytes(element) == 2 &&
      fillsNoTiles(dot, representative(batch), rows, columns, *k, target))
    return true;
  if (*k > deepest)
    return false;
  bool isWhole = *k % lanes == 0;
  return !isWhole || (lanes == 4 && rows > rowsOfGemv);
}

Value knapper::emitShallowMatmul(ElementEmitter &e, ts::DotOp dot,
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
