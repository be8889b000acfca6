// NonMaxSuppression: a turn of a loop takes the best box of each class at once
// and drops what overlaps it. As many turns run as the fullest class keeps
// boxes.
#include "frontends/onnx/ControlFlowBodies.h"
#include "frontends/onnx/Selection.h"
#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

/// Borders of boxes, a tensor each; f32.
struct Boxes {
  Value top, left, bottom, right;
  SmallVector<Value *> parts() { return {&top, &left, &bottom, &right}; }
};

/// [B, N, 4] as four [B, N].
Boxes boxesOf(Node &n, Value boxes, bool centred) {
  SmallVector<Dim> dims = ts::dimsOf(boxes);
  auto part = [&](int64_t i) {
    return n.reshape(n.sliceDim(boxes, 2, n.dim(i), n.dim(1)),
                     {dims[0], dims[1]});
  };
  Value a = part(0), b = part(1), c = part(2), d = part(3);
  if (!centred) // two corners, whichever
    return {n.binary<ts::MinOp>(a, c), n.binary<ts::MinOp>(b, d),
            n.binary<ts::MaxOp>(a, c), n.binary<ts::MaxOp>(b, d)};
  Value halfWidth = n.mul(c, 0.5), halfHeight = n.mul(d, 0.5);
  return {n.sub(b, halfHeight), n.sub(a, halfWidth), n.add(b, halfHeight),
          n.add(a, halfWidth)};
}

/// Each part of the boxes, changed.
Boxes mapped(Boxes boxes, llvm::function_ref<Value(Value)> change) {
  for (Value *part : boxes.parts())
    *part = change(*part);
  return boxes;
}

/// Whether a and b (broadcast against each other) overlap by more than `limit`
/// of what they cover together.
Value overlap(Node &n, const Boxes &a, const Boxes &b, Value limit) {
  auto area = [&](const Boxes &x) {
    Value height = n.sub(x.bottom, x.top), width = n.sub(x.right, x.left);
    return n.mul(height, width);
  };
  Value zero = n.scalarFor(a.top, 0);
  Value height = n.sub(n.binary<ts::MinOp>(a.bottom, b.bottom),
                       n.binary<ts::MaxOp>(a.top, b.top));
  Value width = n.sub(n.binary<ts::MinOp>(a.right, b.right),
                      n.binary<ts::MaxOp>(a.left, b.left));
  Value shared = n.mul(height, width);
  Value first = area(a), second = area(b);
  Value whole = n.sub(n.add(first, second), shared);
  auto all = [&](ArrayRef<Value> conditions) {
    Value result = conditions[0];
    for (Value condition : conditions.drop_front())
      result = n.binary<ts::AndOp>(result, condition);
    return result;
  };
  return all({n.compare(P::gt, height, zero), n.compare(P::gt, width, zero),
              n.compare(P::gt, first, zero), n.compare(P::gt, second, zero),
              n.compare(P::gt, n.div(shared, whole), limit)});
}

/// The number that a scalar input holds, as a 0-d tensor of the element type.
Value scalarOf(Node &n, size_t index, Type element) {
  if (!ts::elementCount(n[index].getType()).isConstant(1)) {
    (void)n.fail("input " + Twine(index) + " must be one number",
                 "give a scalar");
    return {};
  }
  return n.convert(n.reshape(n[index], {}), element);
}

/// How many boxes a class may keep.
std::optional<Dim> mostOf(Node &n, Dim boxes) {
  Type i64 = n.b.getI64Type();
  Value given = scalarOf(n, 2, i64);
  if (!given)
    return std::nullopt;
  std::optional<SmallVector<Dim>> known = n.importer.sizes(given);
  Dim most =
      known ? known->front()
            : n.bindSize(n.binary<ts::MaxOp>(given, n.integerScalar(0, i64)),
                         "most_boxes");
  if (std::optional<int64_t> number = most.asConstant(); number && *number < 0)
    most = n.dim(0);
  return most.min(boxes);
}

/// [selected, 3] (batch, class, box) of what each turn chose, where it is
/// `valid`: [turns, batch, classes]. In order of batch, class, turn. `kept`:
/// where the boxes come from, or null.
Value selected(Node &n, Value chosen, Value valid, Value kept, Dim classes) {
  Type i64 = n.b.getI64Type(), i1 = n.b.getI1Type();
  Value picked = n.transpose(chosen, {1, 2, 0});
  valid = n.transpose(valid, {1, 2, 0});
  if (!picked || !valid)
    return {};
  Dim turns = ts::dimOf(picked, 2), total = ts::elementCount(picked.getType());
  Value found =
      whereTrue(n, n.convert(n.reshape(valid, {total}), i1), "selected");
  Value box =
      n.make<ts::GatherOp>(n.reshape(picked, {total}), found, uint64_t(0));
  if (kept)
    box = n.make<ts::GatherOp>(kept, box, uint64_t(0));
  if (!found || !box)
    return {};
  Value line = n.div(found, n.sizeScalar(turns, i64));
  Value count = n.sizeScalar(classes, i64);
  SmallVector<Dim> column{ts::dimOf(found, 0), n.dim(1)};
  Value parts[] = {n.reshape(n.div(line, count), column),
                   n.reshape(n.binary<ts::ModOp>(line, count), column),
                   n.reshape(box, column)};
  return n.make<ts::ConcatOp>(ValueRange(parts), int64_t(1));
}

LogicalResult importNonMaxSuppression(Node &n) {
  SmallVector<Dim> boxDims = ts::dimsOf(n[0]), dims = ts::dimsOf(n[1]);
  if (boxDims.size() != 3 || dims.size() != 3 || !boxDims[2].isConstant(4))
    return n.fail("boxes and scores are " + ts::shapeText(n[0].getType()) +
                      " and " + ts::shapeText(n[1].getType()),
                  "give [batch, boxes, 4] and [batch, classes, boxes]");
  Type f32 = n.b.getF32Type(), i64 = n.b.getI64Type();
  if (!n.has(2)) // a class keeps 0 boxes
    return n.out(n.broadcastTo(n.integerScalar(0, i64), {n.dim(0), n.dim(3)}));
  Value boxes = n.convert(n.castDims(n[0], {dims[0], dims[2], n.dim(4)}), f32);
  Value scores = n.convert(n[1], f32);
  Value limit = n.has(3) ? scalarOf(n, 3, f32) : n.scalar(0, f32);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value never = n.scalar(-infinity, f32);
  // A score that is no number is never the best.
  scores = n.select(n.make<ts::IsNanOp>(scores), never, scores);
  Value kept; // where the boxes that are left come from
  if (n.has(4)) {
    Value least = scalarOf(n, 4, f32);
    Value enough = n.compare(P::gt, scores, least);
    scores = n.select(enough, scores, never);
    // Boxes that no class wants are left out before the loop.
    Value any = n.reduce(ts::ReduceKind::logical_or, enough, {0, 1}, false);
    kept = whereTrue(n, any, "candidates");
    if (!kept)
      return failure();
    dims[2] = ts::dimOf(kept, 0);
    boxes = n.make<ts::GatherOp>(boxes, kept, uint64_t(1));
    scores = n.make<ts::GatherOp>(scores, kept, uint64_t(2));
  }
  if (!boxes || !scores || !limit)
    return failure();
  std::optional<Dim> most = mostOf(n, dims[2]);
  if (!most)
    return failure();
  Boxes all = boxesOf(n, boxes, n.flag("center_point_box", false));
  SmallVector<Dim> classes{dims[0], dims[1]},
      columns{dims[0], dims[1], n.dim(1)}, rows{dims[0], n.dim(1), dims[2]};
  // A symbolic number of boxes may be 0: one that is never the best stands
  // behind them.
  Dim wide = dims[2] + 1;
  SmallVector<Dim> state{dims[0], dims[1], wide};
  MLIRContext *context = n.importer.context;
  auto withOneMore = [&](Value x, double value) {
    size_t rank = ts::rankOf(x);
    SmallVector<Dim> low(rank, n.dim(0)), high(rank, n.dim(0));
    high.back() = n.dim(1);
    return n.make<ts::PadOp>(
        x, Optional{n.scalarFor(x, value)}, ts::dimArray(context, low),
        ts::dimArray(context, high), ts::PadMode::constant);
  };
  scores = withOneMore(scores, -infinity);
  all = mapped(all, [&](Value x) { return x ? withOneMore(x, 0) : Value(); });
  rows.back() = wide;
  auto best = [&](Value alive) {
    return n.make<ts::ArgReduceOp>(ts::ReduceKind::max, alive, uint64_t(2),
                                   bool(false));
  };
  auto bestScore = [&](Value alive) {
    return n.reduce(ts::ReduceKind::max, alive, {2}, false);
  };
  auto more = [&](Value score) {
    return n.reduce(ts::ReduceKind::logical_or,
                    n.compare(P::gt, score, n.scalar(-infinity, f32)), {0, 1},
                    false);
  };
  LoopShape shape;
  shape.around = &n.scope;
  shape.trips = *most;
  Value firstScore = bestScore(scores);
  shape.carried = {scores, best(scores), firstScore};
  shape.condition = more(firstScore);
  shape.reversed = {false, false};
  if (n.failed() || !shape.condition ||
      llvm::is_contained(shape.carried, Value()))
    return failure();
  std::optional<SmallVector<Value>> results = buildLoop(
      n, shape, [&](OnnxBody &body, Dim, ArrayRef<Value> carried, Turn &turn) {
        Boxes others =
            mapped(all, [&](Value x) { return n.importer.capture(body, x); });
        Value most = n.importer.capture(body, limit);
        Value alive = carried[0], chosen = carried[1], score = carried[2];
        Boxes taken = mapped(others, [&](Value x) {
          return n.reshape(n.make<ts::GatherElementsOp>(x, chosen, uint64_t(1)),
                           columns);
        });
        Boxes around =
            mapped(others, [&](Value x) { return n.reshape(x, rows); });
        Value index = n.makeAs<ts::IotaOp>(n.type(state, i64), uint64_t(2));
        Value itself = n.compare(P::eq, index, n.reshape(chosen, columns));
        Value gone =
            n.binary<ts::OrOp>(itself, overlap(n, taken, around, most));
        Value left = n.select(gone, n.scalar(-infinity, f32), alive);
        Value next = bestScore(left);
        turn.condition = more(next);
        turn.carried = {left, best(left), next};
        turn.scans = {chosen,
                      n.compare(P::gt, score, n.scalar(-infinity, f32))};
        return mlir::success(!n.failed() && turn.condition && turn.carried[1]);
      });
  if (!results)
    return failure();
  return n.out(selected(n, (*results)[3], (*results)[4], kept, dims[1]));
}

constexpr OpRow rows[] = {
    {"", "NonMaxSuppression", 10, 2, 5, importNonMaxSuppression},
};

} // namespace

ArrayRef<OpRow> suppressionRows() { return rows; }

} // namespace knapper
