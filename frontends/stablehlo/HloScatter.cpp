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

/// A tensor, or the planes of a complex one.
using Planes = SmallVector<Value>;

Planes split(HloNode &n, Value value, bool complex) {
  if (!complex || !value)
    return {value};
  HloComplex planes = hloPlanes(n, value);
  return {planes.re, planes.im};
}
Planes each(const Planes &planes, llvm::function_ref<Value(Value)> make) {
  Planes made;
  for (Value plane : planes)
    made.push_back(plane ? make(plane) : Value());
  return made;
}
Value join(HloNode &n, const Planes &planes) {
  return planes.size() == 1 ? planes[0] : hloJoin(n, {planes[0], planes[1]});
}
bool isMissing(const Planes &planes) {
  return llvm::is_contained(planes, Value());
}

/// What the region makes of elements and updates; nothing after an error.
std::optional<Planes> combine(HloNode &n, const Planes &present,
                              const Planes &update) {
  if (isMissing(present) || isMissing(update) || n.failed())
    return std::nullopt;
  std::optional<SmallVector<Value>> made =
      hloApply(n, 0, {join(n, present), join(n, update)});
  if (made && made->size() != 1)
    (void)n.damaged("its region gives another number of results");
  if (!made || n.failed())
    return std::nullopt;
  Planes planes = split(n, made->front(), present.size() > 1);
  return isMissing(planes) ? std::nullopt : std::optional(planes);
}

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
Planes inTurn(HloNode &n, const Planes &x, Value places, Planes update,
              size_t batch) {
  if (isMissing(x) || !places || isMissing(update) || n.failed())
    return {};
  int64_t count = 1;
  for (size_t i = 0; i < batch; ++i)
    count *= n.shape(update[0])[i];
  auto inRows = [&](Value value) {
    SmallVector<int64_t> shape = n.shape(value);
    shape.erase(shape.begin(), shape.begin() + static_cast<int64_t>(batch));
    shape.insert(shape.begin(), count);
    return n.reshapeTo(value, shape);
  };
  places = inRows(places);
  update = each(update, inRows);
  if (!places || isMissing(update))
    return {};
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  ts::Dim turn = n.shared.freshSymbol("turn");
  n.importer.turns[*turn.asSymbol()] = count;
  HloBody region;
  SmallVector<Type> types(ValueRange(x).getTypes());
  n.importer.beginBody(region.body, "scatter", n.loc, n.frame.body, types);
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
  Planes whole(region.body.function.getArguments()), part = each(update, one);
  Value place = one(places);
  auto present = [&](Value plane) {
    return inner.make<ts::GatherNdOp>(plane, place, uint64_t(0));
  };
  Planes next;
  if (std::optional<Planes> made = combine(inner, each(whole, present), part))
    for (auto [plane, value] : llvm::zip(whole, *made))
      next.push_back(inner.make<ts::ScatterNdOp>(plane, place, value,
                                                 ts::ReduceKindAttr()));
  if (inner.error)
    n.error = inner.error;
  if (inner.missing)
    n.missing = inner.missing;
  bool good = !next.empty() && !isMissing(next);
  n.importer.endBody(region.body,
                     good ? ArrayRef<Value>(next) : ArrayRef<Value>(), at);
  if (!good || n.failed())
    return {};
  auto loop = ts::LoopOp::create(
      n.b, n.loc, types, SymbolRefAttr::get(region.body.function),
      n.b.getStringAttr(*turn.asSymbol()), n.dim(count).attr(), Value(),
      ValueRange(x), region.body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  return Planes(loop.getResults());
}

/// Updates at their places. `kind` and `replaces` say how; neither: by the
/// region. `own` elements are along the first dim, `size` of them in a window.
Planes written(HloNode &n, HloWindows &w, std::optional<ReduceKind> kind,
               bool replaces, Planes x, Planes update, int64_t own,
               int64_t size) {
  Value fits = fitting(n, w);
  bool spare = false, combines = !replaces && !kind;
  bool repeats = combines && !n.flag("unique_indices") && !w.batch.empty();
  if (combines && !repeats) {
    Value places = hloPlaces(n, w);
    Planes present = each(x, [&](Value plane) {
      return n.make<ts::GatherNdOp>(plane, places, uint64_t(0));
    });
    std::optional<Planes> made = combine(n, present, update);
    if (!made)
      return {};
    update = *made;
  }
  replaces |= combines;
  if (fits && !replaces) {
    SmallVector<int64_t> at = llvm::to_vector(
        llvm::seq<int64_t>(0, static_cast<int64_t>(w.batch.size())));
    Value neutral = hloNeutral(n, *kind, ts::elementTypeOf(x[0]));
    update = each(update, [&](Value plane) {
      return n.select(n.broadcastAt(fits, at, ts::dimsOf(plane)), plane,
                      neutral);
    });
  } else if (fits) {
    // Behind the last element, where the result is cut.
    w.begins[0] =
        n.select(fits, w.begins[0], n.integerScalar(own, n.b.getI64Type()));
    spare = true;
    x = each(x, [&](Value plane) { return withSpare(n, plane, size); });
  }
  auto reduction = replaces ? ts::ReduceKindAttr()
                            : ts::ReduceKindAttr::get(n.shared.context, *kind);
  Value places = hloPlaces(n, w);
  Planes y;
  if (repeats)
    y = inTurn(n, x, places, update, w.batch.size());
  else
    for (auto [plane, value] : llvm::zip(x, update))
      y.push_back(n.make<ts::ScatterNdOp>(plane, places, value, reduction));
  if (spare)
    y = each(y, [&](Value plane) {
      return n.sliceDim(plane, 0, n.dim(0), n.dim(own));
    });
  return y;
}

LogicalResult importScatter(HloNode &n) {
  if (n.size() != 3 || n.results.size() != 1)
    return n.unsupported("of several operands");
  // Adds and replacements of complex numbers are those of their planes.
  bool complex = !n.onPlanes && isHloComplex(n.op);
  for (size_t i : {0, 2})
    if (complex &&
        (!isHloComplex(n.op->getOperand(i).getType()) || ts::rankOf(n[i]) < 1))
      return n.unsupported("of real and complex operands");
  Planes given = split(n, n[0], complex), changes = split(n, n[2], complex);
  if (isMissing(given) || isMissing(changes) || n.failed())
    return failure();
  auto rank = static_cast<int64_t>(ts::rankOf(given[0]));
  bool replaces = hloReplaces(n.op, 0);
  std::optional<ReduceKind> kind = hloCombiner(n.op, 0);
  // What is subtracted is added with the other sign.
  bool subtracts = !replaces && !kind && hloSubtracts(n.op, 0);
  if (subtracts)
    kind = ReduceKind::add;
  if (complex)
    kind = std::nullopt;
  // Any other region: elements are read, combined and written, all at once
  // where no element is written twice.
  bool combines = !replaces && !kind;
  SmallVector<int64_t> updates = n.shape(changes[0]),
                       inserted = n.dims("inserted_window_dims", rank),
                       paired = n.dims("input_batching_dims", rank),
                       windows = n.dims("update_window_dims", updates.size());
  if (n.failed())
    return failure();
  SmallVector<int64_t> gone = inserted;
  llvm::append_range(gone, paired);
  llvm::sort(windows);
  if (windows.size() + gone.size() != static_cast<size_t>(rank))
    return n.damaged("its windows have another rank than the operand");
  SmallVector<int64_t> sizes, own = n.shape(given[0]);
  size_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool dropped = llvm::is_contained(gone, dim);
    sizes.push_back(dropped ? 1 : updates[windows[next++]]);
    if (sizes.back() > own[dim])
      return n.damaged("its windows are larger than the operand");
  }
  std::optional<HloWindows> w = readHloWindows(
      n, own, sizes, "input_batching_dims", "scatter_indices_batching_dims",
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
  Planes update = each(changes, [&](Value plane) {
    plane = n.reshapeTo(n.transpose(plane, permutation), shape);
    return subtracts ? n.make<ts::NegOp>(plane) : plane;
  });
  Planes x =
      each(given, [&](Value plane) { return n.transpose(plane, order); });
  if (isMissing(update) || isMissing(x) || n.failed())
    return failure();
  auto finish = [&](const Planes &planes) {
    Planes y =
        each(planes, [&](Value plane) { return n.transpose(plane, back); });
    return y.empty() || isMissing(y) ? failure() : n.out(join(n, y));
  };
  if (placed.empty()) { // one window, which is all of the operand
    if (!w->batch.empty())
      return n.unsupported("of several windows that are all of the operand");
    if (replaces)
      return finish(update);
    if (combines)
      return finish(combine(n, x, update).value_or(Planes()));
    return finish({hloCombine(n, *kind, x[0], update[0])});
  }
  return finish(written(n, *w, kind, replaces, x, update, own[placed[0]],
                        sizes[placed[0]]));
}

constexpr HloRow rows[] = {
    {"scatter", 3, importScatter},
};

} // namespace

llvm::ArrayRef<HloRow> hloScatterRows() { return rows; }

} // namespace knapper
