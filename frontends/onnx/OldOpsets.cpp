// Forms that operators had in their first opsets, where they differ from the
// later ones in more than an attribute that says nothing ("consumed_inputs").
#include "frontends/onnx/Node.h"
#include "frontends/onnx/Tensors.h"

using namespace mlir;

namespace knapper {
namespace {

using ts::Dim;

/// The right operand at the shape of the left one. It broadcasts only where
/// `broadcast` says so; its dims then stand from dim `axis` on, or at the end.
Value rightOperand(Node &n, Value y) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]), own = ts::dimsOf(y);
  auto rank = static_cast<int64_t>(dims.size()),
       ownRank = static_cast<int64_t>(own.size());
  if (!n.flag("broadcast", false)) {
    if (rank != ownRank) {
      (void)n.fail(ts::shapeText(n[0].getType()) + " and " +
                       ts::shapeText(y.getType()) + " differ in rank",
                   "set the attribute broadcast to 1");
      return {};
    }
    return n.castDims(y, dims);
  }
  if (ts::elementCount(y.getType()).isConstant(1))
    return n.broadcastTo(n.reshape(y, {}), dims);
  // Dims of size 1 at the end of the right operand say nothing.
  int64_t axis = n.hasAttr("axis") ? n.axis("axis", 0, rank) : rank - ownRank;
  while (!own.empty() && own.back().isConstant(1) &&
         axis + static_cast<int64_t>(own.size()) > rank)
    own.pop_back();
  if (n.failed() || axis < 0 ||
      axis + static_cast<int64_t>(own.size()) > rank) {
    (void)n.fail(ts::shapeText(y.getType()) + " does not fit " +
                     ts::shapeText(n[0].getType()) + " from dim " +
                     Twine(axis) + " on",
                 "correct the attribute axis");
    return {};
  }
  SmallVector<int64_t> at;
  for (size_t i = 0; i < own.size(); ++i)
    at.push_back(axis + static_cast<int64_t>(i));
  return n.broadcastAt(n.reshape(y, own), at, dims);
}

template <typename Op> LogicalResult binary(Node &n) {
  return n.out(n.make<Op>(n[0], rightOperand(n, n[1])));
}

template <ts::ComparePredicate predicate> LogicalResult compare(Node &n) {
  return n.out(n.make<ts::CompareOp>(predicate, n[0], rightOperand(n, n[1])));
}

/// A slope a channel, or one for all.
LogicalResult importPRelu(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  Value slope = n[1];
  if (ts::elementCount(slope.getType()).isConstant(1))
    slope = n.broadcastTo(n.reshape(slope, {}), dims);
  else if (ts::rankOf(slope) == 1 && dims.size() > 1)
    slope = n.broadcastAt(slope, {1}, dims);
  else
    slope = n.broadcastTo(slope, dims);
  Value negative =
      n.compare(ts::ComparePredicate::lt, n[0], n.scalarFor(n[0], 0));
  return n.out(n.select(negative, n.mul(n[0], slope), n[0]));
}

/// The type to convert to is named.
LogicalResult importCast(Node &n) {
  std::string name = n.text("to", "");
  Type element;
  for (int32_t type = 1; type <= onnx::TensorProto::BFLOAT16; ++type)
    if (onnxTypeName(type) == StringRef(name).upper())
      element = onnxElementType(n.importer.context, type);
  if (!element)
    return n.unsupported("conversion to '" + name + "'");
  return n.out(n.convert(n[0], element));
}

/// What was written for training says `is_test` 0, which is the default.
LogicalResult importDropout(Node &n) {
  if (!n.flag("is_test", false))
    return n.unsupported("training mode (is_test 0)");
  if (n.wants(1) && failed(n.out(n.splatLike(1, n[0]), 1)))
    return failure();
  return n.out(n[0]);
}

LogicalResult importHardmax(Node &n) {
  SmallVector<Dim> dims = ts::dimsOf(n[0]);
  ArrayRef<Dim> all = dims;
  int64_t axis = n.axis("axis", 1, static_cast<int64_t>(dims.size()));
  if (n.failed())
    return failure();
  MLIRContext *context = n.importer.context;
  SmallVector<Dim> flat{ts::product(context, all.take_front(axis)),
                        ts::product(context, all.drop_front(axis))};
  Value rows = n.reshape(n[0], flat);
  Value best = n.make<ts::ArgReduceOp>(ts::ReduceKind::max, rows, uint64_t(1),
                                       bool(false));
  Value index =
      n.makeAs<ts::IotaOp>(n.type(flat, n.b.getI64Type()), uint64_t(1));
  Value hit = n.compare(ts::ComparePredicate::eq, index,
                        n.reshape(best, {flat[0], n.dim(1)}));
  return n.out(n.reshape(n.convert(hit, ts::elementTypeOf(n[0])), dims));
}

LogicalResult importReshape(Node &n) {
  SmallVector<int64_t> shape = n.integers("shape");
  SmallVector<Dim> own = ts::dimsOf(n[0]), dims;
  std::optional<size_t> open;
  Dim known = n.dim(1);
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size < -1 || (size == -1 && open) || (size == 0 && i >= own.size()))
      return n.fail("the shape holds " + Twine(size) + " at " + Twine(i),
                    "give sizes, 0 for a dim of the input, and one -1 at most");
    if (size == -1)
      open = i;
    dims.push_back(size == 0 ? own[i] : n.dim(size == -1 ? 1 : size));
    known = known * dims.back();
  }
  if (open) {
    Dim count = ts::elementCount(n[0].getType());
    if (known.isConstant(0))
      return n.fail("-1 beside a dim of 0 has no answer",
                    "give the dim as a number");
    std::optional<Dim> exact = count.exactDiv(known);
    dims[*open] = exact ? *exact : count.floorDiv(known);
  }
  return n.out(n.reshape(n[0], dims));
}

/// `tiles` copies along one axis.
LogicalResult importTile(Node &n) {
  std::optional<SmallVector<Dim>> tiles = n.sizes(n[1], "tiles");
  std::optional<SmallVector<int64_t>> axis = n.numbers(n[2], "axis");
  if (!tiles || !axis)
    return failure();
  if (tiles->size() != 1 || axis->size() != 1)
    return n.fail("tiles and axis must be one number each", "give scalars");
  SmallVector<Dim> dims = ts::dimsOf(n[0]), split, merged = dims;
  int64_t at = n.normalAxis((*axis)[0], static_cast<int64_t>(dims.size()));
  if (n.failed())
    return failure();
  SmallVector<int64_t> places;
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (static_cast<int64_t>(i) == at) {
      split.push_back((*tiles)[0]);
      merged[i] = dim * (*tiles)[0];
    }
    places.push_back(static_cast<int64_t>(split.size()));
    split.push_back(dim);
  }
  return n.out(n.reshape(n.broadcastAt(n[0], places, split), merged));
}

LogicalResult importTopK(Node &n) {
  int64_t k = n.integer("k", -1), axis = n.axis("axis", -1, ts::rankOf(n[0]));
  if (n.failed())
    return failure();
  if (k < 0)
    return n.fail("k is " + Twine(k), "give a number that is not negative");
  Value x = n[0];
  SmallVector<Dim> dims = ts::dimsOf(x);
  if (!dims[axis].asConstant() &&
      !n.importer.assumeAtLeast(dims[axis] - k, 0)) {
    dims[axis] = dims[axis].max(n.dim(k));
    x = n.castDims(x, dims);
  }
  Operation *op =
      n.makeOp<ts::TopKOp>(2, x, n.dim(k).attr(), uint64_t(axis), bool(true));
  if (!op)
    return failure();
  return mlir::success(succeeded(n.out(op->getResult(0), 0)) &&
                       succeeded(n.out(op->getResult(1), 1)));
}

LogicalResult importConcat(Node &n) {
  int64_t rank = ts::rankOf(n[0]), axis = n.axis("axis", 1, rank);
  SmallVector<Value> parts;
  for (Value value : n.all()) {
    if (ts::rankOf(value) != rank)
      return n.fail("an input has another rank", "all inputs need one rank");
    SmallVector<Dim> dims = ts::dimsOf(n[0]);
    if (!n.failed())
      dims[axis] = ts::dimOf(value, axis);
    parts.push_back(n.castDims(value, dims));
  }
  return n.out(parts.size() == 1
                   ? parts[0]
                   : n.make<ts::ConcatOp>(ValueRange(parts), axis));
}

using P = ts::ComparePredicate;

constexpr OpRow rows[] = {
    {"", "Add", 1, 2, 2, binary<ts::AddOp>, 6},
    {"", "And", 1, 2, 2, binary<ts::AndOp>, 6},
    {"", "Cast", 1, 1, 1, importCast, 5},
    {"", "Concat", 1, 1, anyNumber, importConcat, 3},
    {"", "Div", 1, 2, 2, binary<ts::DivOp>, 6},
    {"", "Dropout", 1, 1, 1, importDropout, 6},
    {"", "Equal", 1, 2, 2, compare<P::eq>, 6},
    {"", "Greater", 1, 2, 2, compare<P::gt>, 6},
    {"", "Hardmax", 1, 1, 1, importHardmax, 12},
    {"", "Less", 1, 2, 2, compare<P::lt>, 6},
    {"", "Mul", 1, 2, 2, binary<ts::MulOp>, 6},
    {"", "Or", 1, 2, 2, binary<ts::OrOp>, 6},
    {"", "PRelu", 1, 2, 2, importPRelu, 6},
    {"", "Pow", 1, 2, 2, binary<ts::PowOp>, 6},
    {"", "Reshape", 1, 1, 1, importReshape, 4},
    {"", "Sub", 1, 2, 2, binary<ts::SubOp>, 6},
    {"", "Tile", 1, 3, 3, importTile, 5},
    {"", "TopK", 1, 1, 1, importTopK, 9},
    {"", "Xor", 1, 2, 2, binary<ts::XorOp>, 6},
};

} // namespace

ArrayRef<OpRow> oldOpsetRows() { return rows; }

} // namespace knapper
