#include "graph/layout/PackFilters.h"

#include "graph/fusion/Constants.h"
#include "graph/layout/LayoutPasses.h"
#include "graph/simplify/Match.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_PACKFILTERS
#include "graph/layout/LayoutPasses.h.inc"
} // namespace knapper

namespace {

/// The widest panel that has least zeros, of those that register tiles have.
int64_t choosePanel(int64_t features) {
  int64_t best = 0, least = 0;
  for (int64_t panel : {64, 48, 32, 16}) {
    int64_t columns = (features + panel - 1) / panel * panel;
    if (!best || columns < least)
      best = panel, least = columns;
  }
  return best;
}

/// The filter's argument of a kernel that reads it once and profits; null.
BlockArgument filterToPack(ConvOp conv, KernelOp kernel) {
  auto filter = dyn_cast<BlockArgument>(conv.getFilter());
  unsigned spatial = conv.getStrides().size();
  if (!filter || !filter.hasOneUse() || !conv.getChannelsLast() ||
      spatial < 1 || spatial > 2)
    return {};
  Type element = elementTypeOf(filter);
  if (!element.isF32() && !element.isF16()) // bf16 has rows in pairs
    return {};
  for (Dim dim : dimsOf(filter))
    if (dim.asConstant().value_or(0) < 1)
      return {};
  // Depthwise ones and others of a few features a group read no panels.
  constexpr int64_t leastFeatures = 8;
  int64_t features = *dimsOf(filter).back().asConstant(),
          groups = conv.getGroups();
  if (groups > 1 && features / groups < leastFeatures)
    return {};
  if (fusion::isConstantExpression(kernel.getInputs()[filter.getArgNumber()]))
    return {};
  return filter;
}

/// The transpose that is all that a kernel computes, for one reader.
TransposeOp onlyTranspose(Value value) {
  auto kernel = value.getDefiningOp<KernelOp>();
  if (!kernel || kernel.getNumResults() != 1 || !value.hasOneUse() ||
      kernel.getBody().front().getOperations().size() != 2)
    return {};
  return dyn_cast<TransposeOp>(kernel.getBody().front().front());
}

/// A kernel that writes the filter `[.., F]` in panels.
Value makePanels(OpBuilder &b, Location loc, Value filter, int64_t panel) {
  int64_t rank = rankOf(filter);
  SmallVector<Dim> dims = dimsOf(filter);
  int64_t features = *dims.back().asConstant();
  int64_t panels = (features + panel - 1) / panel;
  Dim width = dims[0].like(panel), count = dims[0].like(panels);
  TransposeOp first;
  if (features % panel == 0)
    first = onlyTranspose(filter);
  Value from =
      first ? first->getParentOfType<KernelOp>().getInputs()[0] : filter;
  SmallVector<int64_t> order(rank);
  for (int64_t d = 0; d < rank; ++d)
    order[d] = first ? first.getPermutation()[d] : d;
  int64_t split = order.back();
  // The dim of the features, in two.
  auto cut = [&](Value value) {
    SmallVector<Dim> sizes = dimsOf(value);
    sizes[split] = count;
    sizes.insert(sizes.begin() + split + 1, width);
    return makeReshape(b, loc, value, sizes);
  };
  // A kernel that is a transpose alone has a schedule of its own.
  bool pads = panels * panel != features;
  if (!pads)
    from = cut(from);
  SmallVector<Dim> made{count};
  llvm::append_range(made, ArrayRef<Dim>(dims).drop_back());
  made.push_back(width);
  Type type = tensorType(b.getContext(), made, elementTypeOf(filter));
  auto kernel = KernelOp::create(b, loc, TypeRange(type), ValueRange(from),
                                 Hero::transpose, ArrayAttr(), StringAttr());
  OpBuilder::InsertionGuard guard(b);
  Block *body = b.createBlock(&kernel.getBody());
  Value value = body->addArgument(from.getType(), loc);
  if (pads) {
    SmallVector<Dim> low(rank, dims[0].like(0)), high = low;
    high.back() = dims[0].like(panels * panel - features);
    auto scalar = RankedTensorType::get({}, elementTypeOf(filter));
    Value zero = makeSplat(b, loc, scalar, 0);
    value = PadOp::create(b, loc, value, zero, dimArray(b.getContext(), low),
                          dimArray(b.getContext(), high), PadMode::constant);
    value = cut(value);
  }
  SmallVector<int64_t> permutation{split};
  for (int64_t d = 0; d + 1 < rank; ++d)
    permutation.push_back(order[d] + (order[d] > split));
  permutation.push_back(split + 1);
  value = makeTranspose(b, loc, value, permutation);
  YieldOp::create(b, loc, value);
  return kernel.getResult(0);
}

/// The filter again, in the body of the kernel that reads the panels.
Value readPanels(OpBuilder &b, Location loc, BlockArgument panels,
                 int64_t features) {
  int64_t rank = rankOf(panels);
  SmallVector<int64_t> permutation;
  for (int64_t d = 1; d + 1 < rank; ++d)
    permutation.push_back(d);
  permutation.append({0, rank - 1});
  Value value = makeTranspose(b, loc, panels, permutation);
  SmallVector<Dim> dims = dimsOf(value);
  Dim all = dims[rank - 2] * dims[rank - 1];
  dims.pop_back();
  dims.back() = all;
  value = makeReshape(b, loc, value, dims);
  return makeSlice(b, loc, value, rank - 2, all.like(0), all.like(features));
}

void packFilter(KernelOp kernel) {
  auto convs = kernel.getBody().getOps<ConvOp>();
  if (convs.empty())
    return;
  ConvOp conv = *convs.begin();
  BlockArgument filter = filterToPack(conv, kernel);
  if (!filter)
    return;
  int64_t features = *dimsOf(filter).back().asConstant();
  OpBuilder b(kernel);
  OpOperand &operand = kernel->getOpOperand(filter.getArgNumber());
  Operation *before = operand.get().getDefiningOp();
  Value panels =
      makePanels(b, conv.getLoc(), operand.get(), choosePanel(features));
  operand.set(panels);
  if (before && isOpTriviallyDead(before))
    before->erase();
  filter.setType(panels.getType());
  b.setInsertionPoint(conv);
  conv.getFilterMutable().assign(
      readPanels(b, conv.getLoc(), filter, features));
}

struct PackFiltersPass : knapper::impl::PackFiltersBase<PackFiltersPass> {
  void runOnOperation() override { packFilters(getOperation()); }
};

} // namespace

void knapper::packFilters(func::FuncOp function) {
  SmallVector<KernelOp> kernels(function.getOps<KernelOp>());
  for (KernelOp kernel : kernels)
    packFilter(kernel);
}

std::optional<PackedFilter> knapper::packedFilter(Value filter) {
  if (auto slice = filter.getDefiningOp<SliceOp>())
    filter = slice.getInput();
  auto reshape = filter.getDefiningOp<ReshapeOp>();
  auto transpose =
      reshape ? reshape.getInput().getDefiningOp<TransposeOp>() : TransposeOp();
  auto panels = transpose ? dyn_cast<BlockArgument>(transpose.getInput())
                          : BlockArgument();
  if (!panels || !panels.hasOneUse())
    return std::nullopt;
  int64_t rank = rankOf(panels);
  ArrayRef<int64_t> order = transpose.getPermutation();
  if (rank < 4 || rankOf(filter) != rank - 1 || order[rank - 2] != 0 ||
      order[rank - 1] != rank - 1)
    return std::nullopt;
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (order[d] != d + 1)
      return std::nullopt;
  SmallVector<Dim> dims = dimsOf(panels), whole = dimsOf(filter);
  std::optional<int64_t> panel = dims.back().asConstant();
  if (!panel || whole.back() != dims.front() * dims.back())
    return std::nullopt;
  return PackedFilter{panels, *panel};
}
