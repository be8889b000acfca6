// NonMaxSuppression: which box is compared with which depends on the scores, so
// it is an operator of the host's (runtime/numeric/Boxes.h).
#include "frontends/onnx/Node.h"
#include "runtime/operators/HostDomain.h"
#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

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
std::optional<Dim> mostOf(Node &n, Value given, Dim boxes) {
  Type i64 = n.b.getI64Type();
  std::optional<SmallVector<Dim>> known = n.importer.sizes(given);
  Dim most =
      known ? known->front()
            : n.bindSize(n.binary<ts::MaxOp>(given, n.integerScalar(0, i64)),
                         "most_boxes");
  if (std::optional<int64_t> number = most.asConstant(); number && *number < 0)
    most = n.dim(0);
  return most.min(boxes);
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
  Value least = n.has(4) ? scalarOf(n, 4, f32) : n.scalar(-infinity, f32);
  Value given = scalarOf(n, 2, i64);
  std::optional<Dim> most = given ? mostOf(n, given, dims[2]) : std::nullopt;
  if (!most || !boxes || !scores || !limit || !least)
    return failure();
  NamedAttribute centred = n.b.getNamedAttr(
      "centred", n.b.getI64IntegerAttr(n.flag("center_point_box", false)));
  Type types[] = {n.type({dims[0] * dims[1] * *most, n.dim(3)}, i64),
                  n.type({}, i64)};
  if (n.failed() || llvm::is_contained(types, Type()))
    return failure();
  Operation *made =
      n.external(kHostDomain, "BoxSuppression", n.b.getDictionaryAttr(centred),
                 SmallVector<bool>(5, true),
                 {boxes, scores, given, limit, least}, {}, types);
  if (!made)
    return failure();
  Dim selected = n.bindSize(made->getResult(1), "selected");
  return n.out(n.sliceDim(made->getResult(0), 0, n.dim(0), selected));
}

constexpr OpRow rows[] = {
    {"", "NonMaxSuppression", 10, 2, 5, importNonMaxSuppression},
};

} // namespace

ArrayRef<OpRow> suppressionRows() { return rows; }

} // namespace knapper
