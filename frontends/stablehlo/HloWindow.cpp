// Sliding windows: pools, running reductions, and the gradient of a max-pool.
#include "frontends/common/Windows.h"
#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloComplex.h"
#include "frontends/stablehlo/HloRegions.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::ReduceKind;
using Pads = SmallVector<std::pair<int64_t, int64_t>>;

constexpr int64_t mostTaps = 64;

struct WindowShape {
  SmallVector<int64_t> size, strides, dilations;
  Pads pads;
  size_t rank() const { return size.size(); }

  /// Whether nothing slides along the dim.
  bool isIdle(size_t i) const {
    return size[i] == 1 && strides[i] == 1 && pads[i] == std::pair(0l, 0l);
  }
  int64_t taps() const {
    int64_t count = 1;
    for (int64_t each : size)
      count = std::min(count * each, mostTaps + 1);
    return count;
  }
  /// Results along the dim of a tensor that is padded already.
  int64_t count(size_t i, int64_t padded) const {
    int64_t extent = (size[i] - 1) * dilations[i] + 1;
    return padded < extent ? 0 : (padded - extent) / strides[i] + 1;
  }
};

/// Nothing after an error.
std::optional<WindowShape> readWindows(HloNode &n, size_t rank) {
  WindowShape w;
  w.size = n.integers("window_dimensions", rank);
  w.strides = n.integers("window_strides", rank);
  w.dilations.assign(rank, 1);
  if (n.has("window_dilations"))
    w.dilations = n.integers("window_dilations", rank);
  w.pads = n.padding("padding", rank);
  if (n.failed())
    return std::nullopt;
  constexpr int64_t most = 1 << 30;
  for (size_t i = 0; i < rank; ++i)
    for (int64_t each : {w.size[i], w.strides[i], w.dilations[i]})
      if (each < 1 || each > most) {
        (void)n.damaged("its windows are out of range");
        return std::nullopt;
      }
  return w;
}

/// The element of every window at the tap, of a padded tensor.
Value atTap(HloNode &n, Value padded, const WindowShape &w,
            ArrayRef<int64_t> tap) {
  SmallVector<int64_t> own = n.shape(padded), starts, counts;
  for (size_t i = 0; i < own.size(); ++i) {
    counts.push_back(w.count(i, own[i]));
    starts.push_back(counts.back() ? tap[i] * w.dilations[i] : 0);
  }
  return n.slice(padded, starts, counts, w.strides);
}

/// Calls `use` with every position in a window, row-major.
void forEachTap(const WindowShape &w,
                llvm::function_ref<void(ArrayRef<int64_t>)> use) {
  SmallVector<int64_t> tap(w.rank(), 0);
  for (;;) {
    use(tap);
    size_t i = w.rank();
    while (i-- > 0) {
      if (++tap[i] < w.size[i])
        break;
      tap[i] = 0;
    }
    if (i == static_cast<size_t>(-1))
      return;
  }
}

Value padded(HloNode &n, Value x, Value value, const WindowShape &w) {
  SmallVector<int64_t> low, high, interior(w.rank(), 0);
  for (auto [before, after] : w.pads) {
    low.push_back(before);
    high.push_back(after);
  }
  return n.pad(x, value, low, high, interior);
}

/// The dim along which windows are all that is before (or behind) an element.
struct RunningWindow {
  size_t dim;
  bool forwards;
};
std::optional<RunningWindow> runOf(ArrayRef<int64_t> own,
                                   const WindowShape &w) {
  std::optional<size_t> along;
  for (size_t i = 0; i < w.rank(); ++i) {
    if (w.isIdle(i))
      continue;
    if (along)
      return std::nullopt;
    along = i;
  }
  if (!along)
    return std::nullopt;
  size_t i = *along;
  int64_t rest = own[i] - 1;
  bool forwards = w.pads[i] == std::pair(rest, int64_t(0)),
       backwards = w.pads[i] == std::pair(int64_t(0), rest);
  if (w.size[i] != own[i] || w.strides[i] != 1 || w.dilations[i] != 1 ||
      (!forwards && !backwards))
    return std::nullopt;
  return RunningWindow{i, forwards};
}

/// cumsum and its like. Null for windows of other kinds.
Value asScan(HloNode &n, ReduceKind kind, Value x, const WindowShape &w) {
  std::optional<RunningWindow> run = runOf(n.shape(x), w);
  if (!run || kind == ReduceKind::logical_and || kind == ReduceKind::logical_or)
    return {};
  return n.make<ts::ScanOp>(kind, x, uint64_t(run->dim), false, !run->forwards);
}

/// A pool over the dims that have windows, put last. Null for what is none.
Value asPool(HloNode &n, ReduceKind kind, Value x, const WindowShape &w) {
  SmallVector<ts::Dim> own = ts::dimsOf(x), shape{n.dim(1), n.dim(1)}, result;
  SmallVector<int64_t> order;
  bool isFloat = isa<FloatType>(ts::elementTypeOf(x));
  if (kind != ReduceKind::max && kind != ReduceKind::add &&
      !(kind == ReduceKind::min && isFloat))
    return {};
  Windows windows;
  for (size_t i = 0; i < w.rank(); ++i)
    if (w.isIdle(i)) {
      order.push_back(static_cast<int64_t>(i));
      ts::Dim &merged = shape[order.size() > 1];
      merged = merged * own[i];
    }
  for (size_t i = 0; i < w.rank(); ++i) {
    if (w.isIdle(i))
      continue;
    auto [low, high] = w.pads[i];
    std::optional<int64_t> size = own[i].asConstant();
    if (low < 0 || high < 0 || !size ||
        *size + low + high < (w.size[i] - 1) * w.dilations[i] + 1)
      return {};
    order.push_back(static_cast<int64_t>(i));
    shape.push_back(own[i]);
    windows.window.push_back(w.size[i]);
    windows.strides.push_back(w.strides[i]);
    windows.dilations.push_back(w.dilations[i]);
    windows.low.push_back(n.dim(low));
    windows.high.push_back(n.dim(high));
  }
  if (windows.window.empty() ||
      llvm::any_of(own, [](ts::Dim dim) { return dim.isConstant(0); }))
    return {};
  SmallVector<int64_t> back(w.rank());
  for (auto [i, dim] : llvm::enumerate(order)) {
    back[dim] = static_cast<int64_t>(i);
    result.push_back(
        w.isIdle(dim)
            ? own[dim]
            : n.dim(w.count(dim, *own[dim].asConstant() + w.pads[dim].first +
                                     w.pads[dim].second)));
  }
  Value moved = n.reshape(n.transpose(x, order), shape);
  bool smallest = kind == ReduceKind::min;
  Value y =
      pool(n, kind == ReduceKind::add ? ts::PoolKind::sum : ts::PoolKind::max,
           smallest ? n.make<ts::NegOp>(moved) : moved, windows,
           /*countPadding=*/false);
  if (smallest)
    y = n.make<ts::NegOp>(y);
  return n.transpose(n.reshape(y, result), back);
}

/// `make` of the tensor and the scalar, of each plane where they are complex.
Value ofPlanes(HloNode &n, Value x, Value scalar, bool complex,
               llvm::function_ref<Value(Value, Value)> make) {
  if (!x || !scalar)
    return {};
  if (!complex)
    return make(x, scalar);
  HloComplex planes = hloPlanes(n, x), begin = hloPlanes(n, scalar);
  return hloJoin(n, {make(planes.re, begin.re), make(planes.im, begin.im)});
}

/// Of any region and several operands: running reductions in steps of 1, 2, 4
/// elements, other windows a tap at a time.
LogicalResult reduceWindowsByRegion(HloNode &n) {
  size_t count = n.results.size();
  SmallVector<bool> complex;
  auto shapeOf = [&](size_t i) {
    SmallVector<int64_t> shape = n.shape(n[i]);
    shape.erase(shape.begin(), shape.begin() + complex[i]);
    return shape;
  };
  for (size_t i = 0; i < count; ++i) {
    complex.push_back(isHloComplex(n.op->getOperand(i).getType()));
    if (ts::rankOf(n[i]) < complex[i] ||
        ts::rankOf(n[count + i]) != complex[i] || shapeOf(i) != shapeOf(0))
      return n.damaged("its operands differ in shape");
  }
  SmallVector<int64_t> own = shapeOf(0);
  size_t rank = own.size();
  std::optional<WindowShape> w = readWindows(n, rank);
  SmallVector<int64_t> spread = n.integers("base_dilations", rank);
  if (!w || n.failed())
    return failure();
  if (llvm::any_of(spread, [](int64_t each) { return each != 1; }))
    return n.unsupported("of a region that is not one op, with gaps between "
                         "elements");
  SmallVector<Value> x(n.operands.begin(), n.operands.begin() + count);
  auto combine = [&](ArrayRef<Value> a, ArrayRef<Value> b) {
    SmallVector<Value> arguments(a);
    llvm::append_range(arguments, b);
    std::optional<SmallVector<Value>> made = hloApply(n, 0, arguments);
    if (made && made->size() != count) {
      (void)n.damaged("its region gives another number of results");
      made.reset();
    }
    return made;
  };
  SmallVector<int64_t> none(rank, 0);
  if (std::optional<RunningWindow> run = runOf(own, *w)) {
    for (int64_t by = 1; by < own[run->dim]; by *= 2) {
      SmallVector<int64_t> low(rank, 0), high(rank, 0);
      low[run->dim] = run->forwards ? by : -by;
      high[run->dim] = -low[run->dim];
      SmallVector<Value> moved;
      for (size_t i = 0; i < count; ++i)
        moved.push_back(ofPlanes(n, x[i], n[count + i], complex[i],
                                 [&](Value each, Value begin) {
                                   return n.pad(each, begin, low, high, none);
                                 }));
      auto made = run->forwards ? combine(moved, x) : combine(x, moved);
      if (!made)
        return failure();
      x = *made;
    }
    return giveHloResults(n, x);
  }
  if (w->taps() > mostTaps)
    return n.unsupported("with windows of more than " + Twine(mostTaps) +
                         " elements and a region that is not one op");
  for (size_t i = 0; i < count; ++i)
    x[i] = ofPlanes(
        n, x[i], n[count + i], complex[i],
        [&](Value each, Value begin) { return padded(n, each, begin, *w); });
  SmallVector<Value> y;
  SmallVector<ts::Dim> places;
  for (size_t i = 0; i < rank; ++i)
    places.push_back(
        n.dim(w->count(i, own[i] + w->pads[i].first + w->pads[i].second)));
  for (size_t i = 0; i < count; ++i)
    y.push_back(hloLifted(n, n[count + i],
                          n.op->getOperand(count + i).getType(), places));
  bool good = !n.failed();
  forEachTap(*w, [&](ArrayRef<int64_t> tap) {
    if (!good || n.failed())
      return;
    SmallVector<Value> here;
    for (size_t i = 0; i < count; ++i)
      here.push_back(
          ofPlanes(n, x[i], n[count + i], complex[i],
                   [&](Value each, Value) { return atTap(n, each, *w, tap); }));
    std::optional<SmallVector<Value>> made = combine(y, here);
    good = made.has_value();
    if (good)
      y = *made;
  });
  return good && !n.failed() ? giveHloResults(n, y) : failure();
}

LogicalResult importReduceWindow(HloNode &n) {
  if (n.results.empty() || n.size() != 2 * n.results.size())
    return n.damaged("has " + Twine(n.size()) + " operands for " +
                     Twine(n.results.size()) + " results");
  std::optional<ReduceKind> kind = hloCombiner(n.op, 0);
  bool complex = !n.onPlanes && isHloComplex(n.op);
  if (!kind || n.results.size() > 1 || complex)
    return reduceWindowsByRegion(n);
  size_t rank = ts::rankOf(n[0]);
  std::optional<WindowShape> w = readWindows(n, rank);
  SmallVector<int64_t> spread = n.integers("base_dilations", rank);
  if (!w || n.failed())
    return failure();
  if (ts::rankOf(n[1]) != 0)
    return n.damaged("begins with what is no scalar");
  for (int64_t &each : spread) {
    if (each < 1 || each > (1 << 30))
      return n.damaged("its dilations are out of range");
    --each;
  }
  SmallVector<int64_t> zeros(rank, 0);
  // Of XLA, what lies outside takes no part, whatever a window begins with.
  Value neutral = hloNeutral(n, *kind, ts::elementTypeOf(n[0]));
  Value x = n[0];
  if (spread != zeros)
    x = n.pad(x, neutral, zeros, zeros, spread);
  if (!x)
    return failure();
  auto finish = [&](Value y) {
    return n.out(hloIsNeutral(*kind, n[1]) ? y : hloCombine(n, *kind, y, n[1]));
  };
  Value known = asScan(n, *kind, x, *w);
  if (!known && !n.failed())
    known = asPool(n, *kind, x, *w);
  if (known || n.failed())
    return finish(known);
  if (llvm::any_of(ts::dimsOf(x), [](ts::Dim dim) { return dim.isSymbolic(); }))
    return n.unsupported("with windows other than pools and running "
                         "reductions, of sizes that only a call knows");
  if (w->taps() > mostTaps)
    return n.unsupported("with windows of more than " + Twine(mostTaps) +
                         " elements, other than pools and running reductions");
  Value around = padded(n, x, neutral, *w), y;
  forEachTap(*w, [&](ArrayRef<int64_t> tap) {
    Value each = around ? atTap(n, around, *w, tap) : Value();
    y = y ? hloCombine(n, *kind, y, each) : each;
  });
  return finish(y);
}

/// The element that wins each window gets the source's: a tap at a time, which
/// needs no scatter.
LogicalResult importSelectAndScatter(HloNode &n) {
  using P = ts::ComparePredicate;
  std::optional<P> keeps = hloSelector(n.op, 0);
  if (!keeps || hloCombiner(n.op, 1) != ReduceKind::add)
    return n.unsupported("with regions other than a comparison and an add");
  size_t rank = ts::rankOf(n[0]);
  std::optional<WindowShape> w = readWindows(n, rank);
  if (!w)
    return failure();
  if (w->taps() > mostTaps)
    return n.unsupported("with windows of more than " + Twine(mostTaps) +
                         " elements");
  if (ts::rankOf(n[1]) != static_cast<int64_t>(rank) || ts::rankOf(n[2]) != 0 ||
      llvm::any_of(w->pads, [](auto p) { return p.first < 0 || p.second < 0; }))
    return n.damaged("its source or pads do not fit");
  Type i1 = n.b.getI1Type(), i32 = n.b.getI32Type();
  Value around = padded(n, n[0], n.scalarFor(n[0], 0), *w);
  Value inside = padded(n, n.broadcastTo(n.scalar(1, i1), ts::dimsOf(n[0])),
                        n.scalar(0, i1), *w);
  if (!around || !inside)
    return failure();
  SmallVector<int64_t> whole = n.shape(around);
  Value best, seen, winner;
  int64_t number = 0;
  forEachTap(*w, [&](ArrayRef<int64_t> tap) {
    Value x = atTap(n, around, *w, tap), valid = atTap(n, inside, *w, tap),
          here = n.integerScalar(number++, i32);
    if (!best) {
      best = x;
      seen = valid;
      winner = x ? n.broadcastTo(here, ts::dimsOf(x)) : x;
      return;
    }
    Value kept = n.binary<ts::AndOp>(seen, n.compare(*keeps, best, x));
    Value taken =
        n.binary<ts::AndOp>(valid, kept ? n.make<ts::NotOp>(kept) : kept);
    best = n.select(taken, x, best);
    winner = n.select(taken, here, winner);
    seen = n.binary<ts::OrOp>(seen, valid);
  });
  if (!best || n.failed())
    return failure();
  if (ts::dimsOf(best) != ts::dimsOf(n[1]))
    return n.damaged("its source has another shape than its windows");
  Value zero = n.scalarFor(n[1], 0), sum;
  number = 0;
  forEachTap(*w, [&](ArrayRef<int64_t> tap) {
    Value part = n.select(
        n.compare(P::eq, winner, n.integerScalar(number++, i32)), n[1], zero);
    SmallVector<int64_t> low, high, between;
    SmallVector<int64_t> own = n.shape(n[1]);
    for (size_t i = 0; i < rank; ++i) {
      low.push_back(tap[i]);
      between.push_back(w->strides[i] - 1);
      int64_t spread = own[i] ? (own[i] - 1) * w->strides[i] + 1 : 0;
      high.push_back(whole[i] - spread - tap[i]);
    }
    Value placed = n.pad(part, zero, low, high, between);
    sum = sum ? n.add(sum, placed) : placed;
  });
  // Without the padding.
  SmallVector<int64_t> low, high, none(rank, 0);
  for (auto [before, after] : w->pads) {
    low.push_back(-before);
    high.push_back(-after);
  }
  Value result = n.pad(sum, zero, low, high, none);
  if (!hloIsNeutral(ReduceKind::add, n[2]))
    result = n.add(result, n[2]);
  return n.out(result);
}

constexpr HloRow rows[] = {
    {"reduce_window", 2, importReduceWindow},
    {"select_and_scatter", 3, importSelectAndScatter},
};

} // namespace

llvm::ArrayRef<HloRow> hloWindowRows() { return rows; }

} // namespace knapper
