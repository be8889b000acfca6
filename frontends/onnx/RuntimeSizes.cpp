#include "frontends/onnx/RuntimeSizes.h"

#include <algorithm>

using namespace mlir;

namespace knapper {

using ts::Dim;
using K = ts::ReduceKind;
using P = ts::ComparePredicate;

/// Of a tensor (`Importer::inputType`).
static constexpr int64_t mostDims = 32;

Value castToMultiples(Node &n, Value value, ArrayRef<int64_t> axes, Dim of) {
  SmallVector<Dim> dims = ts::dimsOf(value);
  for (int64_t axis : axes)
    if (!dims[axis].asConstant() && !dims[axis].exactDiv(of))
      dims[axis] = dims[axis].floorDiv(of) * of;
  return n.castDims(value, dims);
}

std::optional<int64_t> lengthOf(Value list) {
  if (ts::rankOf(list) == 0)
    return 1;
  if (ts::rankOf(list) != 1)
    return std::nullopt;
  return ts::dimOf(list, 0).asConstant();
}

std::optional<int64_t> runtimeLength(Node &n, Value list) {
  std::optional<int64_t> length = lengthOf(list);
  return isKnown(n, list) || !length || *length > mostDims ? std::nullopt
                                                           : length;
}

Value asList(Node &n, Value list) {
  if (!list)
    return {};
  list = n.convert(list, n.b.getI64Type());
  return list && ts::rankOf(list) == 0 ? n.reshape(list, {n.dim(1)}) : list;
}

Value elementOf(Node &n, Value list, int64_t at) {
  return n.reshape(n.sliceDim(list, 0, n.dim(at), n.dim(1)), {});
}

Value indices(Node &n, int64_t count) {
  return n.makeAs<ts::IotaOp>(n.type({n.dim(count)}, n.b.getI64Type()),
                              uint64_t(0));
}

SmallVector<Dim> symbolsOf(Node &n, Value list, int64_t count, StringRef hint) {
  SmallVector<Dim> dims;
  for (int64_t i = 0; i < count; ++i) {
    Value element = elementOf(n, list, i);
    std::optional<SmallVector<Dim>> known;
    if (element)
      known = n.importer.sizes(element);
    if (known && known->front().asConstant().value_or(0) >= 0) {
      dims.push_back(known->front());
      continue;
    }
    dims.push_back(n.bindSize(element, hint));
    n.importer.mayBeOne(dims.back());
  }
  return dims;
}

bool isKnown(Node &n, Value list) { return !list || n.importer.sizes(list); }

bool isNumbers(Node &n, Value list) {
  std::optional<SmallVector<Dim>> known;
  if (list)
    known = n.importer.sizes(list);
  return !list || (known && llvm::all_of(*known, [](Dim dim) {
                     return dim.asConstant().has_value();
                   }));
}

void require(Node &n, Dim left, P predicate, Dim right, const Twine &text) {
  ts::CheckOp::create(n.b, n.loc, left.attr(), predicate, right.attr(),
                      text.str());
}

void require(Node &n, Value condition, const Twine &text) {
  Dim flag = n.bindSize(n.convert(condition, n.b.getI64Type()), "holds");
  if (!n.failed())
    require(n, flag, P::eq, n.dim(1), text);
}

std::optional<SmallVector<Dim>> sizesOrSymbols(Node &n, Value list,
                                               StringRef what) {
  if (!list)
    return std::nullopt;
  if (std::optional<SmallVector<Dim>> known = n.importer.sizes(list))
    return known;
  if (!ts::elementTypeOf(list).isIntOrIndex())
    return n.sizes(list, what); // says why
  std::optional<int64_t> length = lengthOf(list);
  if (!length || *length > mostDims) {
    (void)n.unsupported(what + " is " + ts::shapeText(list.getType()) +
                        " and no list of a known length");
    return std::nullopt;
  }
  (void)what.consume_front("the ");
  std::string hint = what.str();
  std::replace(hint.begin(), hint.end(), ' ', '_');
  return symbolsOf(n, asList(n, list), *length, hint);
}

std::optional<RuntimeAxes> RuntimeAxes::of(Node &n, Value axes, int64_t rank) {
  std::optional<int64_t> length = lengthOf(axes);
  if (!length) {
    (void)n.unsupported("axes are " + ts::shapeText(axes.getType()) +
                        " and no list of a known length");
    return std::nullopt;
  }
  if (*length > rank) {
    (void)n.fail("has " + Twine(*length) + " axes for rank " + Twine(rank),
                 "name each axis once");
    return std::nullopt;
  }
  RuntimeAxes made;
  made.number = *length;
  made.all = rank;
  Type i64 = n.b.getI64Type();
  Value list = asList(n, axes), zero = n.integerScalar(0, i64);
  list = n.select(n.compare(P::lt, list, zero),
                  n.add(list, n.integerScalar(rank, i64)), list);
  SmallVector<Dim> both{n.dim(made.number), n.dim(rank)};
  made.matches = n.compare(P::eq, n.broadcastAt(list, {0}, both),
                           n.broadcastAt(indices(n, rank), {1}, both));
  made.listed = n.reduce(K::logical_or, made.matches, {0}, false);
  Dim found = n.bindSize(
      n.reduce(K::add, n.convert(made.listed, i64), {0}, false), "axes");
  if (n.failed())
    return std::nullopt;
  require(n, found, P::eq, n.dim(*length),
          "an axis is outside of rank " + Twine(rank) + ", or named twice");
  return made;
}

Value RuntimeAxes::spread(Node &n, Value values, Value others) const {
  SmallVector<Dim> both{n.dim(number), n.dim(all)};
  Value given = n.select(matches, n.broadcastAt(values, {0}, both),
                         n.integerScalar(0, n.b.getI64Type()));
  return n.select(listed, n.reduce(K::add, given, {0}, false), others);
}

Value RuntimeAxes::without(Node &n, Value list) const {
  Type i64 = n.b.getI64Type();
  Value kept = n.convert(n.make<ts::NotOp>(listed), i64);
  // Element d is the place[d]-th of those that stay.
  Value place = n.make<ts::ScanOp>(K::add, kept, uint64_t(0),
                                   /*exclusive=*/true, /*reverse=*/false);
  SmallVector<Dim> both{n.dim(all - number), n.dim(all)};
  Value here = n.compare(P::eq, n.broadcastAt(place, {1}, both),
                         n.broadcastAt(indices(n, all - number), {0}, both));
  Value mine = n.mul(n.mul(list, kept), n.convert(here, i64));
  return n.reduce(K::add, mine, {1}, false);
}

SmallVector<Dim> RuntimeAxes::foldAround(Node &n, ArrayRef<Dim> dims) const {
  Type i64 = n.b.getI64Type();
  Value axis = n.reduce(K::add, n.mul(n.convert(listed, i64), indices(n, all)),
                        {0}, false);
  Value sizes = n.sizesTensor(dims), places = indices(n, all);
  auto product = [&](P where) {
    Value one = n.integerScalar(1, i64);
    return n.bindSize(
        n.reduce(K::mul, n.select(n.compare(where, places, axis), sizes, one),
                 {0}, false),
        where == P::lt   ? "outer"
        : where == P::eq ? "length"
                         : "inner");
  };
  return {product(P::lt), product(P::eq), product(P::gt)};
}

} // namespace knapper
