// Windows written at places that only the run knows. What does not fit whole is
// left out, as XLA does it.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloIndices.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

using P = ts::ComparePredicate;
using ts::ReduceKind;

/// Whether each window fits, an i1 of the batch's shape; the begins of others
/// become 0. Null where every dim fits by form.
Value fitting(HloNode &n, HloWindows &w) {
  Type i64 = n.b.getI64Type();
  Value fits;
  for (auto [begin, dim] : llvm::zip(w.begins, w.indexed)) {
    if (begin && begin.getDefiningOp<ts::IotaOp>())
      continue; // of a batching dim
    Value inside = n.binary<ts::AndOp>(
        n.compare(P::ge, begin, n.integerScalar(0, i64)),
        n.compare(P::le, begin,
                  n.integerScalar(w.operand[dim] - w.sizes[dim], i64)));
    fits = fits ? n.binary<ts::AndOp>(fits, inside) : inside;
  }
  if (fits)
    for (Value &begin : w.begins)
      begin = n.select(fits, begin, n.integerScalar(0, i64));
  return fits;
}

/// One element more along the first dim, which is what replaces nothing.
Value withSpare(HloNode &n, Value x, int64_t by) {
  SmallVector<int64_t> zeros(ts::rankOf(x), 0), high = zeros;
  high[0] = by;
  return n.pad(x, n.scalarFor(x, 0), zeros, high, zeros);
}

/// One window after the other: each is read, combined with its update and
/// written. `places` and `update` begin with `batch` dims of windows.
Value inTurn(HloNode &n, Value x, Value places, Value update, size_t batch) {
  if (!x || !places || !update || n.failed())
    return {};
  auto inRows = [&](Value value, int64_t count) {
    SmallVector<int64_t> shape = n.shape(value);
    shape.erase(shape.begin(), shape.begin() + static_cast<int64_t>(batch));
    shape.insert(shape.begin(), count);
    return n.reshapeTo(value, shape);
  };
  int64_t count = 1;
  for (size_t i = 0; i < batch; ++i)
    count *= n.shape(update)[i];
  places = inRows(places, count);
  update = inRows(update, count);
  if (!places || !update)
    return {};
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  ts::Dim turn = n.shared.freshSymbol("turn");
  n.importer.turns[*turn.asSymbol()] = count;
  HloBody region;
  n.importer.beginBody(region.body, "scatter", n.loc, n.frame.body,
                       {x.getType()});
  region.frame.parent = &n.frame;
  region.frame.body = &region.body;
  region.frame.depth = n.frame.depth + 1;
  HloNode inner(n.importer, region.frame, n.op, n.kind, n.loc);
  inner.onWide = n.onWide;
  auto one = [&](Value value) {
    Value row = inner.sliceDim(n.importer.capture(region.body, value), 0, turn,
                               n.dim(1));
    SmallVector<int64_t> shape = n.shape(value);
    return inner.reshapeTo(row, ArrayRef(shape).drop_front());
  };
  Value whole = region.body.function.getArgument(0), place = one(places),
        part = one(update), next;
  Value present = inner.make<ts::GatherNdOp>(whole, place, uint64_t(0));
  std::optional<SmallVector<Value>> made =
      present ? hloApply(inner, 0, {present, part}) : std::nullopt;
  if (made && made->size() != 1)
    (void)inner.damaged("its region gives another number of results");
  else if (made)
    next = inner.make<ts::ScatterNdOp>(whole, place, made->front(),
                                       ts::ReduceKindAttr());
  if (inner.error)
    n.error = inner.error;
  if (inner.missing)
    n.missing = inner.missing;
  n.importer.endBody(region.body,
                     next ? ArrayRef<Value>(next) : ArrayRef<Value>(), at);
  if (!next || n.failed())
    return {};
  auto loop = ts::LoopOp::create(
      n.b, n.loc, TypeRange(x.getType()),
      SymbolRefAttr::get(region.body.function),
      n.b.getStringAttr(*turn.asSymbol()), n.dim(count).attr(), Value(),
      ValueRange(x), region.body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  return loop.getResult(0);
}

LogicalResult importScatter(HloNode &n) {
  if (n.size() != 3 || n.results.size() != 1)
    return n.unsupported("of several operands");
  auto rank = static_cast<int64_t>(ts::rankOf(n[0]));
  bool replaces = hloReplaces(n.op, 0);
  std::optional<ReduceKind> kind = hloCombiner(n.op, 0);
  // What is subtracted is added with the other sign.
  bool subtracts = !replaces && !kind && hloSubtracts(n.op, 0);
  if (subtracts)
    kind = ReduceKind::add;
  // Any other region: elements are read, combined and written, all at once
  // where no element is written twice.
  bool combines = !replaces && !kind;
  SmallVector<int64_t> updates = n.shape(n[2]),
                       inserted = n.dims("inserted_window_dims", rank),
                       paired = n.dims("input_batching_dims", rank),
                       windows = n.dims("update_window_dims", ts::rankOf(n[2]));
  if (n.failed())
    return failure();
  SmallVector<int64_t> gone = inserted;
  llvm::append_range(gone, paired);
  llvm::sort(windows);
  if (windows.size() + gone.size() != static_cast<size_t>(rank))
    return n.damaged("its windows have another rank than the operand");
  SmallVector<int64_t> sizes, own = n.shape(n[0]);
  size_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool dropped = llvm::is_contained(gone, dim);
    sizes.push_back(dropped ? 1 : updates[windows[next++]]);
    if (sizes.back() > own[dim])
      return n.damaged("its windows are larger than the operand");
  }
  std::optional<HloWindows> w = readHloWindows(n, sizes, "input_batching_dims",
                                               "scatter_indices_batching_dims",
                                               "scatter_dims_to_operand_dims");
  if (!w)
    return failure();
  SmallVector<int64_t> ofBatch;
  for (size_t i = 0; i < updates.size(); ++i)
    if (!llvm::is_contained(windows, static_cast<int64_t>(i)))
      ofBatch.push_back(static_cast<int64_t>(i));
  if (ofBatch.size() != w->batch.size())
    return n.damaged("its updates have another rank than its windows");
  for (auto [i, dim] : llvm::enumerate(ofBatch))
    if (updates[dim] != w->batch[i])
      return n.damaged("its updates have another shape than its indices");
  if (llvm::is_contained(updates, 0))
    return n.out(n[0]);

  // Updates as [batch..., windows of the operand's dims in `order`...]
  SmallVector<int64_t> placed = w->placed(), order = placed, back(rank),
                       permutation = ofBatch, shape = w->batch;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(placed, dim))
      order.push_back(dim);
  for (auto [i, dim] : llvm::enumerate(order))
    back[dim] = static_cast<int64_t>(i);
  for (int64_t dim : order) {
    shape.push_back(sizes[dim]);
    if (llvm::is_contained(gone, dim))
      continue;
    int64_t before =
        llvm::count_if(gone, [&](int64_t other) { return other < dim; });
    permutation.push_back(windows[dim - before]);
  }
  Value update = n.reshapeTo(n.transpose(n[2], permutation), shape);
  if (subtracts)
    update = n.make<ts::NegOp>(update);
  Value x = n.transpose(n[0], order);
  if (!update || !x || n.failed())
    return failure();
  auto combined = [&](Value present) {
    std::optional<SmallVector<Value>> made =
        present ? hloApply(n, 0, {present, update}) : std::nullopt;
    if (made && made->size() != 1)
      (void)n.damaged("its region gives another number of results");
    return made && !n.failed() ? made->front() : Value();
  };
  if (placed.empty()) { // one window, which is all of the operand
    if (!w->batch.empty())
      return n.unsupported("of several windows that are all of the operand");
    Value y = replaces   ? update
              : combines ? combined(x)
                         : hloCombine(n, *kind, x, update);
    return y ? n.out(n.transpose(y, back)) : failure();
  }
  Value fits = fitting(n, *w);
  Type element = ts::elementTypeOf(x);
  bool spare = false;
  bool repeats = combines && !n.flag("unique_indices") && !w->batch.empty();
  if (combines && !repeats) {
    update = combined(n.make<ts::GatherNdOp>(x, hloPlaces(n, *w), uint64_t(0)));
    if (!update)
      return failure();
  }
  replaces |= combines;
  if (fits && !replaces) {
    SmallVector<int64_t> at = llvm::to_vector(
        llvm::seq<int64_t>(0, static_cast<int64_t>(w->batch.size())));
    update = n.select(n.broadcastAt(fits, at, ts::dimsOf(update)), update,
                      hloNeutral(n, *kind, element));
  } else if (fits) {
    // Behind the last element, where the result is cut.
    w->begins[0] = n.select(fits, w->begins[0],
                            n.integerScalar(own[placed[0]], n.b.getI64Type()));
    spare = true;
    x = withSpare(n, x, sizes[placed[0]]);
  }
  auto reduction = replaces ? ts::ReduceKindAttr()
                            : ts::ReduceKindAttr::get(n.shared.context, *kind);
  Value y =
      repeats ? inTurn(n, x, hloPlaces(n, *w), update, w->batch.size())
              : n.make<ts::ScatterNdOp>(x, hloPlaces(n, *w), update, reduction);
  if (spare)
    y = n.sliceDim(y, 0, n.dim(0), n.dim(own[placed[0]]));
  return n.out(n.transpose(y, back));
}

constexpr HloRow rows[] = {
    {"scatter", 3, importScatter},
};

} // namespace

llvm::ArrayRef<HloRow> hloScatterRows() { return rows; }

} // namespace knapper
