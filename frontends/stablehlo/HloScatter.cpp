// Windows written at places that only the run knows. What does not fit whole is
// left out, as XLA does it.
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
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

/// What the region makes of elements that are there and of updates, which have
/// their planes, if any, along `plane`.
Value combined(HloNode &n, std::optional<int64_t> plane, Value present,
               Value update) {
  auto moved = [&](Value value, int64_t from, int64_t to) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(value)));
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
    return n.transpose(value, order);
  };
  if (!present || !update)
    return {};
  if (plane) {
    present = moved(present, *plane, 0);
    update = moved(update, *plane, 0);
  }
  std::optional<SmallVector<Value>> made = hloApply(n, 0, {present, update});
  if (made && made->size() != 1)
    (void)n.damaged("its region gives another number of results");
  if (!made || n.failed() || !made->front())
    return {};
  return plane ? moved(made->front(), 0, *plane) : made->front();
}

/// One window after the other: each is read, combined with its update and
/// written. `places` and `update` begin with `batch` dims of windows; `plane`
/// is a dim of what follows them.
Value inTurn(HloNode &n, Value x, Value places, Value update, size_t batch,
             std::optional<int64_t> plane) {
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
  ts::Dim iteration = n.shared.freshSymbol("iteration");
  n.importer.iterations[*iteration.asSymbol()] = count;
  HloBody region;
  n.importer.beginBody(region.body, "scatter", n.loc, n.frame.body,
                       {x.getType()});
  region.frame.parent = &n.frame;
  region.frame.body = &region.body;
  region.frame.depth = n.frame.depth + 1;
  HloNode inner(n.importer, region.frame, n.op, n.kind, n.loc);
  inner.onWide = n.onWide;
  auto one = [&](Value value) {
    Value row = inner.sliceDim(n.importer.capture(region.body, value), 0,
                               iteration, n.dim(1));
    SmallVector<int64_t> shape = n.shape(value);
    return inner.reshapeTo(row, ArrayRef(shape).drop_front());
  };
  Value whole = region.body.function.getArgument(0), place = one(places), next;
  if (Value made = combined(
          inner, plane, inner.make<ts::GatherNdOp>(whole, place, uint64_t(0)),
          one(update)))
    next =
        inner.make<ts::ScatterNdOp>(whole, place, made, ts::ReduceKindAttr());
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
      n.b.getStringAttr(*iteration.asSymbol()), n.dim(count).attr(), Value(),
      ValueRange(x), region.body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  return loop.getResult(0);
}

/// How operand and updates are turned: [placed dims..., planes, others...].
struct ScatterOrder {
  SmallVector<int64_t> operand, back; ///< and back
  /// Updates as [batch..., windows of the operand's dims in that order...].
  SmallVector<int64_t> updates, shape;
  std::optional<int64_t> plane; ///< of the operand
};

/// `gone`: dims of the operand that updates have not; `ofBatch`, `windows`:
/// dims of the updates.
ScatterOrder orderOf(const HloWindows &w, ArrayRef<int64_t> gone,
                     ArrayRef<int64_t> ofBatch, ArrayRef<int64_t> windows,
                     bool complex) {
  ScatterOrder made;
  auto rank = static_cast<int64_t>(w.operand.size());
  SmallVector<int64_t> placed = w.placed(), order = placed;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(placed, dim))
      order.push_back(dim);
  if (complex)
    made.plane = static_cast<int64_t>(placed.size());
  made.shape = w.batch;
  for (int64_t dim : ofBatch)
    made.updates.push_back(dim + complex);
  for (int64_t i = 0; i <= rank; ++i) {
    if (made.plane == i) {
      made.operand.push_back(0);
      made.updates.push_back(0);
      made.shape.push_back(2);
    }
    if (i == rank)
      break;
    int64_t dim = order[i];
    made.operand.push_back(dim + complex);
    made.shape.push_back(w.sizes[dim]);
    if (llvm::is_contained(gone, dim))
      continue;
    int64_t before =
        llvm::count_if(gone, [&](int64_t other) { return other < dim; });
    made.updates.push_back(windows[dim - before] + complex);
  }
  made.back.resize(made.operand.size());
  for (auto [i, dim] : llvm::enumerate(made.operand))
    made.back[dim] = static_cast<int64_t>(i);
  return made;
}

LogicalResult importScatter(HloNode &n) {
  if (n.size() != 3 || n.results.size() != 1)
    return n.unsupported("of several operands");
  // Complex numbers come here with both planes where these meet.
  bool complex = !n.onPlanes && isHloComplex(n.op->getOperand(0).getType());
  if (!n.onPlanes && complex != isHloComplex(n.op->getOperand(2).getType()))
    return n.damaged("its operand and updates are of two types");
  SmallVector<int64_t> own = hloOwnShape(n, 0), updates = hloOwnShape(n, 2);
  auto rank = static_cast<int64_t>(own.size());
  bool replaces = !complex && hloReplaces(n.op, 0);
  std::optional<ReduceKind> kind =
      complex ? std::nullopt : hloCombiner(n.op, 0);
  // What is subtracted is added with the other sign.
  bool subtracts = !complex && !replaces && !kind && hloSubtracts(n.op, 0);
  if (subtracts)
    kind = ReduceKind::add;
  // Any other region: elements are read, combined and written, all at once
  // where no element is written twice.
  bool combines = !replaces && !kind;
  SmallVector<int64_t> inserted = n.dims("inserted_window_dims", rank),
                       paired = n.dims("input_batching_dims", rank),
                       windows = n.dims("update_window_dims",
                                        static_cast<int64_t>(updates.size()));
  if (n.failed())
    return failure();
  SmallVector<int64_t> gone = inserted;
  llvm::append_range(gone, paired);
  llvm::sort(windows);
  if (windows.size() + gone.size() != static_cast<size_t>(rank))
    return n.damaged("its windows have another rank than the operand");
  SmallVector<int64_t> sizes;
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

  ScatterOrder order = orderOf(*w, gone, ofBatch, windows, complex);
  SmallVector<int64_t> placed = w->placed();
  Value update = n.reshapeTo(n.transpose(n[2], order.updates), order.shape);
  if (subtracts)
    update = n.make<ts::NegOp>(update);
  Value x = n.transpose(n[0], order.operand);
  if (!update || !x || n.failed())
    return failure();
  if (placed.empty()) { // one window, which is all of the operand
    if (!w->batch.empty())
      return n.unsupported("of several windows that are all of the operand");
    Value y = replaces   ? update
              : combines ? combined(n, order.plane, x, update)
                         : hloCombine(n, *kind, x, update);
    return y ? n.out(n.transpose(y, order.back)) : failure();
  }
  Value fits = fitting(n, *w);
  Type element = ts::elementTypeOf(x);
  bool spare = false;
  bool repeats = combines && !n.flag("unique_indices") && !w->batch.empty();
  if (combines && !repeats) {
    std::optional<int64_t> along;
    if (order.plane)
      along = *order.plane + static_cast<int64_t>(w->batch.size());
    update = combined(n, along,
                      n.make<ts::GatherNdOp>(x, hloPlaces(n, *w), uint64_t(0)),
                      update);
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
      repeats
          ? inTurn(n, x, hloPlaces(n, *w), update, w->batch.size(), order.plane)
          : n.make<ts::ScatterNdOp>(x, hloPlaces(n, *w), update, reduction);
  if (spare)
    y = n.sliceDim(y, 0, n.dim(0), n.dim(own[placed[0]]));
  return n.out(n.transpose(y, order.back));
}

constexpr HloRow rows[] = {
    {"scatter", 3, importScatter},
};

} // namespace

llvm::ArrayRef<HloRow> hloScatterRows() { return rows; }

} // namespace knapper
