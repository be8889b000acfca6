#include "frontends/onnx/Selection.h"
#include "ir/tensor/DataSelection.h"
#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;
using P = ts::ComparePredicate;

/// [B, N, 4]: centres and sizes (x, y, width, height) as corners.
Value cornersOf(Node &n, Value boxes) {
  auto part = [&](int64_t i) {
    return n.sliceDim(boxes, 2, n.dim(i), n.dim(1));
  };
  Value x = part(0), y = part(1), halfWidth = n.mul(part(2), 0.5),
        halfHeight = n.mul(part(3), 0.5);
  Value corners[] = {n.sub(y, halfHeight), n.sub(x, halfWidth),
                     n.add(y, halfHeight), n.add(x, halfWidth)};
  if (llvm::is_contained(corners, Value()))
    return {};
  return n.make<ts::ConcatOp>(ValueRange(corners), int64_t(2));
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

/// [selected, 3] (batch, class, box) of `boxes` [batches, classes, most], where
/// they are not -1.
Value selected(Node &n, Value boxes) {
  Type i64 = n.b.getI64Type();
  Value found = truePlaces(n, n.compare(P::ge, boxes, n.integerScalar(0, i64)),
                           "selected");
  if (!found)
    return {};
  Value places = n.transpose(found, {1, 0});
  Value box = n.make<ts::GatherNdOp>(boxes, places, uint64_t(0));
  if (!places || !box)
    return {};
  SmallVector<Dim> column{ts::dimOf(found, 1), n.dim(1)};
  Value parts[] = {n.sliceDim(places, 1, n.dim(0), n.dim(2)),
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
  if (n.has(4)) {
    Value least = scalarOf(n, 4, f32);
    scores = n.select(n.compare(P::gt, scores, least), scores,
                      n.scalar(-infinity, f32));
  } else {
    // Minus infinity is a score as any other; the op never takes it.
    scores = n.select(n.compare(P::eq, scores, n.scalar(-infinity, f32)),
                      n.scalar(std::numeric_limits<float>::lowest(), f32),
                      scores);
  }
  if (n.flag("center_point_box", false))
    boxes = cornersOf(n, boxes);
  std::optional<Dim> most = mostOf(n, dims[2]);
  if (n.failed() || !boxes || !scores || !limit || !most)
    return failure();
  Value taken =
      n.make<ts::NonMaxSuppressionOp>(boxes, scores, limit, most->attr());
  return n.out(taken ? selected(n, taken) : taken);
}

constexpr OpRow rows[] = {
    {"", "NonMaxSuppression", 10, 2, 5, importNonMaxSuppression},
};

} // namespace

ArrayRef<OpRow> suppressionRows() { return rows; }

} // namespace knapper
