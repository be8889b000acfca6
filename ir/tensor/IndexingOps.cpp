// The indexing interface of every op; ir/tensor/Indexing.h explains the form.
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

/// Loops are the dims of `result`, nothing reduced.
Indexing parallel(Value result) {
  Indexing indexing;
  llvm::append_range(indexing.loops, dimsOf(result));
  indexing.parallelLoops = indexing.loops.size();
  return indexing;
}

IndexMap identity(Value operand) {
  IndexMap map;
  for (int64_t i = 0; i < rankOf(operand); ++i)
    map.dims.push_back(IndexExpr::ofLoop(operand.getContext(), i));
  return map;
}

IndexMap opaque() {
  IndexMap map;
  map.kind = IndexMap::opaque;
  return map;
}

IndexExpr dataDependent(MLIRContext *context) {
  IndexExpr expr = IndexExpr::constant(Dim::constant(context, 0));
  expr.dataDependent = true;
  return expr;
}

/// Every operand is read at the position of the result.
Indexing elementwise(Operation *op) {
  Indexing indexing = parallel(op->getResult(0));
  for (Value operand : op->getOperands())
    indexing.maps.push_back(identity(operand));
  return indexing;
}

Indexing allOpaque(Operation *op) {
  Indexing indexing = parallel(op->getResult(0));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    indexing.maps.push_back(opaque());
  return indexing;
}

} // namespace

Indexing ts::opaqueIndexing(Operation *op, std::optional<Dim> reduced) {
  Indexing indexing = parallel(op->getResult(0));
  if (reduced)
    indexing.loops.push_back(*reduced);
  indexing.maps.assign(op->getNumOperands(), opaque());
  return indexing;
}

#define ELEMENTWISE(OP)                                                        \
  Indexing OP::indexing() { return elementwise(getOperation()); }
ELEMENTWISE(NegOp)
ELEMENTWISE(AbsOp)
ELEMENTWISE(SignOp)
ELEMENTWISE(ExpOp)
ELEMENTWISE(Expm1Op)
ELEMENTWISE(LogOp)
ELEMENTWISE(Log1pOp) ELEMENTWISE(SqrtOp) ELEMENTWISE(RsqrtOp) ELEMENTWISE(
    TanhOp) ELEMENTWISE(SigmoidOp) ELEMENTWISE(ErfOp) ELEMENTWISE(SinOp)
    ELEMENTWISE(CosOp) ELEMENTWISE(TanOp) ELEMENTWISE(AsinOp) ELEMENTWISE(
        AcosOp) ELEMENTWISE(AtanOp) ELEMENTWISE(SinhOp) ELEMENTWISE(CoshOp)
        ELEMENTWISE(AsinhOp) ELEMENTWISE(AcoshOp) ELEMENTWISE(
            AtanhOp) ELEMENTWISE(CeilOp) ELEMENTWISE(FloorOp)
            ELEMENTWISE(RoundEvenOp) ELEMENTWISE(TruncOp) ELEMENTWISE(
                NotOp) ELEMENTWISE(AddOp) ELEMENTWISE(SubOp) ELEMENTWISE(MulOp)
                ELEMENTWISE(DivOp) ELEMENTWISE(ModOp) ELEMENTWISE(RemOp)
                    ELEMENTWISE(PowOp) ELEMENTWISE(MaxOp) ELEMENTWISE(MinOp)
                        ELEMENTWISE(Atan2Op) ELEMENTWISE(AndOp) ELEMENTWISE(
                            OrOp) ELEMENTWISE(XorOp) ELEMENTWISE(ShiftLeftOp)
                            ELEMENTWISE(ShiftRightOp) ELEMENTWISE(CompareOp)
                                ELEMENTWISE(SelectOp) ELEMENTWISE(ConvertOp)
                                    ELEMENTWISE(BitcastOp) ELEMENTWISE(IsNanOp)
                                        ELEMENTWISE(IsInfOp) ELEMENTWISE(GeluOp)
                                            ELEMENTWISE(SoftplusOp)
                                                ELEMENTWISE(DimCastOp)
#undef ELEMENTWISE

                                                    Indexing
    BroadcastOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap map;
  for (auto [dim, loop] : llvm::zip(dimsOf(getInput()), getDims()))
    map.dims.push_back(dim.isConstant(1)
                           ? IndexExpr::constant(dim.like(0))
                           : IndexExpr::ofLoop(getContext(), loop));
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing ReshapeOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap map;
  map.kind = IndexMap::linear;
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing TransposeOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap map;
  map.dims.resize(getPermutation().size());
  for (auto [loop, dim] : llvm::enumerate(getPermutation()))
    map.dims[dim] = IndexExpr::ofLoop(getContext(), loop);
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing SliceOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap map;
  for (auto [i, start] : llvm::enumerate(dimsOf(getStarts())))
    map.dims.push_back(
        {{{static_cast<unsigned>(i), getSteps()[i]}}, start, false});
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing PadOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap map;
  map.bounded = true;
  if (getMode() != PadMode::constant)
    map.kind = IndexMap::opaque; // reflections are not affine
  for (auto [i, low] : llvm::enumerate(dimsOf(getLow())))
    map.dims.push_back({{{static_cast<unsigned>(i), 1}}, low * -1, false});
  indexing.maps.push_back(std::move(map));
  if (getValue())
    indexing.maps.push_back(IndexMap());
  return indexing;
}

Indexing ConcatOp::indexing() {
  Indexing indexing = parallel(getResult());
  Dim offset = Dim::constant(getContext(), 0);
  for (Value input : getInputs()) {
    IndexMap map = identity(input);
    map.dims[getDim()].offset = offset * -1;
    map.partial = true;
    offset = offset + dimOf(input, getDim());
    indexing.maps.push_back(std::move(map));
  }
  return indexing;
}

Indexing GatherOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap data, index;
  unsigned axis = getDim(), indexRank = rankOf(getIndices());
  for (unsigned i = 0; i < static_cast<unsigned>(rankOf(getInput())); ++i)
    data.dims.push_back(
        i == axis ? dataDependent(getContext())
                  : IndexExpr::ofLoop(getContext(),
                                      i < axis ? i : i + indexRank - 1));
  for (unsigned i = 0; i < indexRank; ++i)
    index.dims.push_back(IndexExpr::ofLoop(getContext(), axis + i));
  indexing.maps = {std::move(data), std::move(index)};
  return indexing;
}

Indexing GatherElementsOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap data = identity(getInput());
  data.dims[getDim()] = dataDependent(getContext());
  indexing.maps = {std::move(data), identity(getIndices())};
  return indexing;
}

Indexing GatherNdOp::indexing() {
  Indexing indexing = parallel(getResult());
  IndexMap data;
  unsigned batch = getBatchDims(), indexRank = rankOf(getIndices());
  int64_t depth = *dimsOf(getIndices()).back().asConstant();
  for (unsigned i = 0; i < static_cast<unsigned>(rankOf(getInput())); ++i) {
    if (i < batch)
      data.dims.push_back(IndexExpr::ofLoop(getContext(), i));
    else if (i < batch + depth)
      data.dims.push_back(dataDependent(getContext()));
    else
      data.dims.push_back(
          IndexExpr::ofLoop(getContext(), indexRank - 1 + (i - batch - depth)));
  }
  indexing.maps = {std::move(data), opaque()};
  return indexing;
}

Indexing ScatterElementsOp::indexing() { return allOpaque(getOperation()); }
Indexing ScatterNdOp::indexing() { return allOpaque(getOperation()); }
Indexing TopKOp::indexing() { return allOpaque(getOperation()); }
Indexing ScanOp::indexing() { return allOpaque(getOperation()); }

/// Result dims first, then the reduced ones.
static Indexing reduction(Value input, Value result, ArrayRef<int64_t> dims) {
  Indexing indexing = parallel(result);
  IndexMap map;
  SmallVector<Dim> all = dimsOf(input);
  unsigned next = 0, reduced = indexing.parallelLoops;
  for (auto [i, dim] : llvm::enumerate(all)) {
    bool isReduced = llvm::is_contained(dims, static_cast<int64_t>(i));
    map.dims.push_back(
        IndexExpr::ofLoop(input.getContext(), isReduced ? reduced++ : next++));
  }
  for (int64_t dim : dims)
    indexing.loops.push_back(all[dim]);
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing ReduceOp::indexing() {
  return reduction(getInput(), getResult(), getDims());
}
Indexing ArgReduceOp::indexing() {
  return reduction(getInput(), getResult(), {static_cast<int64_t>(getDim())});
}

Indexing DotOp::indexing() {
  Indexing indexing = parallel(getResult());
  auto side = [&](Value operand, ArrayRef<int64_t> batch,
                  ArrayRef<int64_t> contract, unsigned firstFree) {
    IndexMap map;
    unsigned next = firstFree;
    for (int64_t i = 0; i < rankOf(operand); ++i) {
      unsigned loop;
      if (const auto *it = llvm::find(batch, i); it != batch.end())
        loop = it - batch.begin();
      else if (const auto *it = llvm::find(contract, i); it != contract.end())
        loop = indexing.parallelLoops + (it - contract.begin());
      else
        loop = next++;
      map.dims.push_back(IndexExpr::ofLoop(getContext(), loop));
    }
    indexing.maps.push_back(std::move(map));
    return next;
  };
  unsigned free =
      side(getLhs(), getLhsBatch(), getLhsContract(), getLhsBatch().size());
  side(getRhs(), getRhsBatch(), getRhsContract(), free);
  SmallVector<Dim> lhs = dimsOf(getLhs());
  for (int64_t dim : getLhsContract())
    indexing.loops.push_back(lhs[dim]);
  return indexing;
}

Indexing ConvOp::indexing() {
  // Loops: N, F and the output's spatial dims in the result's order; then
  // channels of a group and the window.
  Indexing indexing = parallel(getResult());
  MLIRContext *context = getContext();
  bool last = getChannelsLast();
  unsigned spatial = getStrides().size();
  unsigned feature = last ? spatial + 1 : 1, firstSpatial = last ? 1 : 2;
  SmallVector<Dim> filter = dimsOf(getFilter()), low = dimsOf(getLow());
  unsigned channel = indexing.loops.size();
  indexing.loops.push_back(last ? filter[spatial] : filter[1]);
  for (unsigned i = 0; i < spatial; ++i)
    indexing.loops.push_back(filter[i + (last ? 0 : 2)]);

  IndexMap input, window;
  input.bounded = true;
  input.dims.resize(spatial + 2);
  window.dims.resize(spatial + 2);
  input.dims[0] = IndexExpr::ofLoop(context, 0);
  input.dims[last ? spatial + 1 : 1] = IndexExpr::ofLoop(context, channel);
  window.dims[last ? spatial + 1 : 0] = IndexExpr::ofLoop(context, feature);
  window.dims[last ? spatial : 1] = IndexExpr::ofLoop(context, channel);
  for (unsigned i = 0; i < spatial; ++i) {
    input.dims[i + firstSpatial] = {{{i + firstSpatial, getStrides()[i]},
                                     {channel + 1 + i, getDilations()[i]}},
                                    low[i] * -1,
                                    false};
    window.dims[i + (last ? 0 : 2)] =
        IndexExpr::ofLoop(context, channel + 1 + i);
  }
  // Groups and input dilation make the channel or the position more than
  // affine.
  if (getGroups() != 1 ||
      llvm::any_of(getInputDilations(), [](int64_t d) { return d != 1; }))
    input.kind = IndexMap::opaque;
  indexing.maps = {std::move(input), std::move(window)};
  return indexing;
}

Indexing PoolOp::indexing() {
  Indexing indexing = parallel(getResult());
  unsigned spatial = getWindow().size(), first = getChannelsLast() ? 1 : 2;
  IndexMap map = identity(getInput());
  map.bounded = true;
  SmallVector<Dim> low = dimsOf(getLow());
  for (unsigned i = 0; i < spatial; ++i) {
    unsigned loop = indexing.loops.size();
    indexing.loops.push_back(Dim::constant(getContext(), getWindow()[i]));
    map.dims[i + first] = {
        {{i + first, getStrides()[i]}, {loop, getDilations()[i]}},
        low[i] * -1,
        false};
  }
  indexing.maps.push_back(std::move(map));
  return indexing;
}

Indexing SoftmaxOp::indexing() { return allOpaque(getOperation()); }

Indexing LayerNormOp::indexing() {
  Indexing indexing = parallel(getResult());
  indexing.maps.push_back(opaque());
  for (Value operand : getOperation()->getOperands().drop_front()) {
    IndexMap map;
    for (int64_t i = getDim(); i < rankOf(getInput()); ++i)
      map.dims.push_back(IndexExpr::ofLoop(operand.getContext(), i));
    indexing.maps.push_back(std::move(map));
  }
  return indexing;
}

Indexing AttentionOp::indexing() { return allOpaque(getOperation()); }
Indexing RopeOp::indexing() { return allOpaque(getOperation()); }
