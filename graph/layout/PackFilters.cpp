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
      spatial < 1 || spatial > 3)
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

/// Where `filter`, a transpose's result, comes from if the convolution takes it
/// as it lies there; null. One program then has all output pixels of a panel,
/// so that each panel is transposed once.
Value filterInPlace(ConvOp conv, Value filter, int64_t panel,
                    const FilterModel &model) {
  // Taps for which a schedule unrolls its code; bytes of an image that leave
  // room for panels in the second-level cache.
  constexpr int64_t mostTaps = 9, step = 16;
  int64_t mostImageBytes = model.l2Bytes / 2;
  TransposeOp from = onlyTranspose(filter);
  SmallVector<Dim> window = dimsOf(filter), in = dimsOf(conv.getInput()),
                   out = dimsOf(conv.getResult());
  if (!from || window.size() != 4 || !elementTypeOf(filter).isF32() ||
      from.getPermutation() != ArrayRef<int64_t>{2, 3, 1, 0} ||
      conv.getGroups() != 1)
    return {};
  for (int64_t d : conv.getInputDilations())
    if (d != 1)
      return {};
  for (int64_t d : conv.getDilations())
    if (d != 1)
      return {};
  for (ArrayRef<Dim> dims : {ArrayRef<Dim>(in), ArrayRef<Dim>(out)})
    for (Dim dim : dims)
      if (!dim.asConstant())
        return {};
  int64_t taps = *window[0].asConstant() * *window[1].asConstant(),
          channels = *window[2].asConstant(),
          features = *window[3].asConstant();
  auto elements = [](ArrayRef<Dim> dims) {
    return *dims[0].asConstant() * *dims[1].asConstant() *
           *dims[2].asConstant();
  };
  // Of more than 7 x 7 pixels windows of 3 x 3 may go by Winograd's algorithm,
  // which reads panels.
  int64_t mostPixels = taps > 1 ? 49 : 256;
  // Of a window of one pixel no others are read.
  int64_t pixels = elements(taps > 1 ? in : out);
  if (!in[0].isConstant(1) || taps > mostTaps || channels % step ||
      features % panel || features / panel < model.programs ||
      elements(out) > mostPixels || pixels * channels * 4 > mostImageBytes)
    return {};
  return from->getParentOfType<KernelOp>().getInputs()[0];
}

/// The features `[F, ..]` in panels `[F / panel, panel, ..]`.
Value cutInPanels(OpBuilder &b, Location loc, Value filter, int64_t panel) {
  SmallVector<Dim> dims = dimsOf(filter);
  Dim width = dims[0].like(panel), count = dims[0].floorDiv(width);
  dims[0] = count;
  dims.insert(dims.begin() + 1, width);
  return makeReshape(b, loc, filter, dims);
}

/// The order of [F / panel, window.., C, panel] in a filter that is in place.
SmallVector<int64_t> orderInPlace(int64_t rank) {
  SmallVector<int64_t> order{0};
  for (int64_t d = 3; d < rank; ++d)
    order.push_back(d);
  order.append({2, 1});
  return order;
}

/// The filter `[.., F]` in panels: a kernel's result, but for one full panel,
/// which is the filter as it lies.
Value makePanels(OpBuilder &b, Location loc, Value filter, int64_t panel) {
  int64_t rank = rankOf(filter);
  SmallVector<Dim> dims = dimsOf(filter);
  int64_t features = *dims.back().asConstant();
  int64_t panels = (features + panel - 1) / panel;
  Dim width = dims[0].like(panel), count = dims[0].like(panels);
  SmallVector<Dim> made{count};
  llvm::append_range(made, ArrayRef<Dim>(dims).drop_back());
  made.push_back(width);
  TransposeOp first;
  if (features % panel == 0)
    first = onlyTranspose(filter);
  if (features == panel && !first)
    return makeReshape(b, loc, filter, made);
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
Value readPanels(OpBuilder &b, Location loc, Value panels, int64_t features) {
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

void packFilter(KernelOp kernel, const FilterModel &model) {
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
  int64_t panel = choosePanel(features);
  Value inPlace = filterInPlace(conv, operand.get(), panel, model);
  Value panels = inPlace ? cutInPanels(b, conv.getLoc(), inPlace, panel)
                         : makePanels(b, conv.getLoc(), operand.get(), panel);
  operand.set(panels);
  if (before && isOpTriviallyDead(before))
    before->erase();
  filter.setType(panels.getType());
  b.setInsertionPoint(conv);
  Value read = filter;
  if (inPlace)
    read = makeTranspose(b, conv.getLoc(), read, orderInPlace(rankOf(panels)));
  conv.getFilterMutable().assign(readPanels(b, conv.getLoc(), read, features));
}

struct PackFiltersPass : knapper::impl::PackFiltersBase<PackFiltersPass> {
  using Base::Base;
  void runOnOperation() override {
    packFilters(getOperation(), {.l2Bytes = l2Bytes, .programs = programs});
  }
};

} // namespace

void knapper::packFilters(func::FuncOp function, const FilterModel &model) {
  SmallVector<KernelOp> kernels(function.getOps<KernelOp>());
  for (KernelOp kernel : kernels)
    packFilter(kernel, model);
}

std::optional<PackedFilter> knapper::packedFilter(Value filter) {
  if (auto slice = filter.getDefiningOp<SliceOp>())
    filter = slice.getInput();
  auto reshape = filter.getDefiningOp<ReshapeOp>();
  auto transpose =
      reshape ? reshape.getInput().getDefiningOp<TransposeOp>() : TransposeOp();
  if (!transpose)
    return std::nullopt;
  Value inPanels = transpose.getInput();
  auto place = inPanels.getDefiningOp<TransposeOp>();
  auto panels = dyn_cast<BlockArgument>(place ? place.getInput() : inPanels);
  if (!panels || !panels.hasOneUse())
    return std::nullopt;
  int64_t rank = rankOf(panels);
  if (place && (rank != 5 || place.getPermutation() !=
                                 ArrayRef<int64_t>(orderInPlace(rank))))
    return std::nullopt;
  ArrayRef<int64_t> order = transpose.getPermutation();
  if (rank < 4 || rankOf(filter) != rank - 1 || order[rank - 2] != 0 ||
      order[rank - 1] != rank - 1)
    return std::nullopt;
  for (int64_t d = 0; d + 2 < rank; ++d)
    if (order[d] != d + 1)
      return std::nullopt;
  SmallVector<Dim> dims = dimsOf(inPanels), whole = dimsOf(filter);
  std::optional<int64_t> panel = dims.back().asConstant();
  if (!panel || whole.back() != dims.front() * dims.back())
    return std::nullopt;
  return PackedFilter{panels, *panel, bool(place)};
}
