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

/// Whether `begin` counts along a dim of the batch and never above `last`.
bool staysBelow(Value begin, int64_t last) {
  auto iota = begin.getDefiningOp<ts::IotaOp>();
  std::optional<int64_t> count =
      iota ? ts::dimOf(iota, iota.getDim()).asConstant() : std::nullopt;
  return count && *count <= last + 1;
}

/// Whether each window fits, an i1 of the batch's shape; the begins of others
/// become 0. Null where every dim fits by form.
Value fitting(HloNode &n, HloWindows &w) {
  Type i64 = n.b.getI64Type();
  Value fits;
  for (size_t i = 0; i < w.named; ++i) {
    Value begin = w.begins[i];
    int64_t last = w.operand[w.indexed[i]] - w.sizes[w.indexed[i]];
    if (!begin || staysBelow(begin, last))
      continue;
    Value inside = n.binary<ts::AndOp>(
        n.compare(P::ge, begin, n.integerScalar(0, i64)),
        n.compare(P::le, begin, n.integerScalar(last, i64)));
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

/// The order of dims in which operand and updates are transposed: [placed
/// dims..., planes, others...].
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

/// An operand that updates are scattered into.
struct Scattered {
  Value x, update; ///< transposed as `order` says
  ScatterOrder order;
  bool replaces = false;
  std::optional<ReduceKind> kind; ///< how updates are combined, if they are
  bool subtracts = false;         ///< added (`kind`) with the other sign
};

/// What the region makes of elements that are there and of updates, one of each
/// an operand, with planes, if any, along the operand's own dim behind `batch`.
std::optional<SmallVector<Value>>
combined(HloNode &n, ArrayRef<Scattered> operands, int64_t batch,
         ArrayRef<Value> present, ArrayRef<Value> updates) {
  auto moved = [&](Value value, int64_t from, int64_t to) {
    SmallVector<int64_t> order =
        llvm::to_vector(llvm::seq<int64_t>(0, ts::rankOf(value)));
    order.erase(order.begin() + from);
    order.insert(order.begin() + to, from);
    return n.transpose(value, order);
  };
  SmallVector<Value> arguments;
  for (ArrayRef<Value> values : {present, updates})
    for (auto [operand, value] : llvm::zip(operands, values)) {
      if (!value)
        return std::nullopt;
      arguments.push_back(operand.order.plane
                              ? moved(value, *operand.order.plane + batch, 0)
                              : value);
    }
  std::optional<SmallVector<Value>> made = hloApply(n, 0, arguments);
  if (made && made->size() != operands.size())
    (void)n.damaged("its region gives another number of results");
  if (!made || n.failed())
    return std::nullopt;
  for (auto [operand, value] : llvm::zip(operands, *made)) {
    if (!value)
      return std::nullopt;
    if (operand.order.plane)
      value = moved(value, 0, *operand.order.plane + batch);
  }
  return made;
}

/// Elements of all operands at the places, combined with the updates.
std::optional<SmallVector<Value>>
combinedAt(HloNode &n, ArrayRef<Scattered> operands, int64_t batch,
           ArrayRef<Value> from, Value places, ArrayRef<Value> updates) {
  SmallVector<Value> present;
  for (Value x : from)
    present.push_back(n.make<ts::GatherNdOp>(x, places, uint64_t(0)));
  return combined(n, operands, batch, present, updates);
}

/// One window after the other: each is read, combined with its update and
/// written. `places` and updates begin with `batch` dims of windows. The
/// operands' `x` become the results.
void inTurn(HloNode &n, MutableArrayRef<Scattered> operands, Value places,
            size_t batch) {
  if (!places || n.failed())
    return;
  auto inRows = [&](Value value, int64_t count) {
    SmallVector<int64_t> shape = n.shape(value);
    shape.erase(shape.begin(), shape.begin() + static_cast<int64_t>(batch));
    shape.insert(shape.begin(), count);
    return n.reshapeTo(value, shape);
  };
  int64_t count = 1;
  for (size_t i = 0; i < batch; ++i)
    count *= n.shape(operands[0].update)[i];
  places = inRows(places, count);
  SmallVector<Value> updates, from;
  for (Scattered &each : operands) {
    updates.push_back(inRows(each.update, count));
    from.push_back(each.x);
  }
  if (!places || n.failed())
    return;
  SmallVector<Type> types = llvm::to_vector(TypeRange(ValueRange(from)));
  OpBuilder::InsertPoint at = n.b.saveInsertionPoint();
  ts::Dim iteration = n.shared.freshSymbol("iteration");
  n.importer.iterations[*iteration.asSymbol()] = count;
  HloBody region;
  n.importer.beginBody(region.body, "scatter", n.loc, n.frame.body, types);
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
  SmallVector<Value> whole(region.body.function.getArguments()), next;
  Value place = one(places);
  SmallVector<Value> own = llvm::map_to_vector(updates, one);
  if (auto made = combinedAt(inner, operands, 0, whole, place, own))
    for (auto [present, value] : llvm::zip(whole, *made))
      next.push_back(inner.make<ts::ScatterNdOp>(present, place, value,
                                                 ts::ReduceKindAttr()));
  if (inner.error)
    n.error = inner.error;
  if (inner.missing)
    n.missing = inner.missing;
  bool complete = !next.empty() && !llvm::is_contained(next, Value());
  n.importer.endBody(region.body, complete ? next : SmallVector<Value>(), at);
  for (Scattered &each : operands)
    each.x = {};
  if (!complete || n.failed())
    return;
  auto loop = ts::LoopOp::create(
      n.b, n.loc, TypeRange(types), SymbolRefAttr::get(region.body.function),
      n.b.getStringAttr(*iteration.asSymbol()), n.dim(count).attr(), Value(),
      from, region.body.captures, StringAttr(), n.b.getArrayAttr({}),
      n.b.getDenseBoolArrayAttr({}));
  for (auto [each, result] : llvm::zip(operands, loop.getResults()))
    each.x = result;
}

/// The windows of all operands, which have one shape.
struct ScatterWindows {
  SmallVector<int64_t> own, updates;     ///< shapes
  SmallVector<int64_t> gone;             ///< dims that updates have not
  SmallVector<int64_t> windows, ofBatch; ///< dims of the updates
  HloWindows at;
};

/// Nothing after an error.
std::optional<ScatterWindows> readWindows(HloNode &n) {
  ScatterWindows s;
  size_t count = n.results.size();
  s.own = hloOwnShape(n, 0);
  s.updates = hloOwnShape(n, count + 1);
  for (size_t i = 0; i < count; ++i)
    if (hloOwnShape(n, i) != s.own ||
        hloOwnShape(n, count + 1 + i) != s.updates) {
      (void)n.damaged("its operands or its updates are of several shapes");
      return std::nullopt;
    }
  auto rank = static_cast<int64_t>(s.own.size());
  s.gone = n.dims("inserted_window_dims", rank);
  llvm::append_range(s.gone, n.dims("input_batching_dims", rank));
  s.windows =
      n.dims("update_window_dims", static_cast<int64_t>(s.updates.size()));
  if (n.failed())
    return std::nullopt;
  llvm::sort(s.windows);
  auto damaged = [&](const Twine &what) {
    (void)n.damaged(what);
    return std::nullopt;
  };
  if (s.windows.size() + s.gone.size() != static_cast<size_t>(rank))
    return damaged("its windows have another rank than the operand");
  SmallVector<int64_t> sizes;
  size_t next = 0;
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool dropped = llvm::is_contained(s.gone, dim);
    if (!dropped && next == s.windows.size())
      return damaged("its dims of windows do not fit");
    sizes.push_back(dropped ? 1 : s.updates[s.windows[next++]]);
    if (!dropped && sizes.back() > s.own[dim])
      return damaged("its windows are larger than the operand");
  }
  std::optional<HloWindows> at = readHloWindows(
      n, sizes, "input_batching_dims", "scatter_indices_batching_dims",
      "scatter_dims_to_operand_dims", static_cast<unsigned>(count));
  if (!at)
    return std::nullopt;
  s.at = std::move(*at);
  for (size_t i = 0; i < s.updates.size(); ++i)
    if (!llvm::is_contained(s.windows, static_cast<int64_t>(i)))
      s.ofBatch.push_back(static_cast<int64_t>(i));
  if (s.ofBatch.size() != s.at.batch.size())
    return damaged("its updates have another rank than its windows");
  for (auto [i, dim] : llvm::enumerate(s.ofBatch))
    if (s.updates[dim] != s.at.batch[i])
      return damaged("its updates have another shape than its indices");
  return s;
}

/// The operand of that number and how its updates are combined. Nothing after
/// an error.
std::optional<Scattered> readOperand(HloNode &n, const ScatterWindows &s,
                                     size_t i) {
  size_t count = n.results.size(), updates = count + 1 + i;
  // Complex numbers come here with both planes where these meet.
  bool complex = !n.onPlanes && isHloComplex(n.op->getOperand(i).getType());
  if (!n.onPlanes &&
      complex != isHloComplex(n.op->getOperand(updates).getType()))
    return (void)n.damaged("its operand and updates are of two types"),
           std::nullopt;
  Scattered made;
  HloRegionPart part{static_cast<unsigned>(i), static_cast<unsigned>(count)};
  made.replaces = !complex && hloReplaces(n.op, 0, part);
  if (!complex)
    made.kind = hloCombiner(n.op, 0, part);
  made.subtracts =
      !complex && !made.replaces && !made.kind && hloSubtracts(n.op, 0, part);
  if (made.subtracts)
    made.kind = ReduceKind::add;
  made.order = orderOf(s.at, s.gone, s.ofBatch, s.windows, complex);
  made.update = n.reshapeTo(n.transpose(n[updates], made.order.updates),
                            made.order.shape);
  made.x = n.transpose(n[i], made.order.operand);
  if (!made.update || !made.x || n.failed())
    return std::nullopt;
  return made;
}

/// One window, which is all of each operand.
LogicalResult scatterAll(HloNode &n, ArrayRef<Scattered> operands,
                         bool combines) {
  SmallVector<Value> present, updates, made;
  for (const Scattered &each : operands) {
    present.push_back(each.x);
    updates.push_back(each.update);
  }
  if (combines) {
    std::optional<SmallVector<Value>> all =
        combined(n, operands, 0, present, updates);
    if (!all)
      return failure();
    made = *all;
  } else {
    for (const Scattered &each : operands)
      made.push_back(each.replaces
                         ? each.update
                         : hloCombine(n, *each.kind, each.x, each.update));
  }
  for (auto [i, value] : llvm::enumerate(made))
    if (!value || failed(n.out(n.transpose(value, operands[i].order.back), i)))
      return failure();
  return mlir::success();
}

/// Windows that are all of the operands become rows of operands that have one
/// row. Their places.
Value asRows(HloNode &n, MutableArrayRef<Scattered> operands,
             ArrayRef<int64_t> batch) {
  for (Scattered &each : operands) {
    SmallVector<int64_t> own = n.shape(each.x),
                         updates = n.shape(each.update);
    own.insert(own.begin(), 1);
    updates.insert(updates.begin() + static_cast<int64_t>(batch.size()), 1);
    each.x = n.reshapeTo(each.x, own);
    each.update = n.reshapeTo(each.update, updates);
    if (each.order.plane)
      ++*each.order.plane;
  }
  SmallVector<ts::Dim> dims;
  for (int64_t size : batch)
    dims.push_back(n.dim(size));
  dims.append(2, n.dim(1));
  return n.broadcastTo(n.integerScalar(0, n.b.getI64Type()), dims);
}

LogicalResult importScatter(HloNode &n) {
  if (n.results.empty() || n.size() != 2 * n.results.size() + 1)
    return n.damaged("it has not one result and one update an operand");
  std::optional<ScatterWindows> s = readWindows(n);
  if (!s)
    return failure();
  SmallVector<Scattered, 1> operands;
  for (size_t i = 0; i < n.results.size(); ++i) {
    if (llvm::is_contained(s->updates, 0) || llvm::is_contained(s->own, 0)) {
      if (failed(n.out(n[i], i)))
        return failure();
      continue;
    }
    std::optional<Scattered> operand = readOperand(n, *s, i);
    if (!operand)
      return failure();
    operands.push_back(std::move(*operand));
  }
  if (operands.empty())
    return mlir::success();
  // Any other region: elements are read, combined and written, all at once
  // where no element is written twice.
  bool combines = llvm::any_of(operands, [](const Scattered &each) {
    return !each.replaces && !each.kind;
  });
  for (Scattered &each : operands)
    if (each.subtracts && !combines)
      each.update = n.make<ts::NegOp>(each.update);
  HloWindows &w = s->at;
  SmallVector<int64_t> placed = w.placed();
  bool whole = placed.empty();
  if (whole && w.batch.empty())
    return scatterAll(n, operands, combines);
  auto batch = static_cast<int64_t>(w.batch.size());
  Value fits = fitting(n, w);
  Value inside = whole ? asRows(n, operands, w.batch)
                       : hloPlaces(n, w); // those of others are 0
  bool repeats = combines && !n.flag("unique_indices") && batch;
  if (combines && !repeats) {
    SmallVector<Value> from, updates;
    for (const Scattered &each : operands) {
      from.push_back(each.x);
      updates.push_back(each.update);
    }
    std::optional<SmallVector<Value>> made =
        combinedAt(n, operands, batch, from, inside, updates);
    if (!made)
      return failure();
    for (auto [each, value] : llvm::zip(operands, *made))
      each.update = value;
  }
  // Behind the last element, where the result is cut.
  Value all = inside;
  if (fits) {
    w.begins[0] =
        n.select(fits, w.begins[0],
                 n.integerScalar(s->own[placed[0]], n.b.getI64Type()));
    all = hloPlaces(n, w);
  }
  for (Scattered &each : operands) {
    each.replaces |= combines;
    if (fits && each.replaces)
      each.x = withSpare(n, each.x, w.sizes[placed[0]]);
    if (!each.replaces && fits) {
      SmallVector<int64_t> at = llvm::to_vector(llvm::seq<int64_t>(0, batch));
      each.update = n.select(
          n.broadcastAt(fits, at, ts::dimsOf(each.update)), each.update,
          hloNeutral(n, *each.kind, ts::elementTypeOf(each.x)));
    }
    if (repeats)
      continue;
    each.x = n.make<ts::ScatterNdOp>(
        each.x, each.replaces ? all : inside, each.update,
        each.replaces ? ts::ReduceKindAttr()
                      : ts::ReduceKindAttr::get(n.shared.context, *each.kind));
  }
  if (repeats)
    inTurn(n, operands, all, static_cast<size_t>(batch));
  for (auto [i, each] : llvm::enumerate(operands)) {
    if (!each.x || n.failed())
      return failure();
    Value y = each.x;
    if (fits && each.replaces)
      y = n.sliceDim(y, 0, n.dim(0), n.dim(s->own[placed[0]]));
    if (whole)
      y = n.reshapeTo(y, ArrayRef(n.shape(y)).drop_front());
    if (failed(n.out(n.transpose(y, each.order.back), i)))
      return failure();
  }
  return mlir::success();
}

constexpr HloRow rows[] = {
    {"scatter", 3, importScatter},
};

} // namespace

llvm::ArrayRef<HloRow> hloScatterRows() { return rows; }

} // namespace knapper
