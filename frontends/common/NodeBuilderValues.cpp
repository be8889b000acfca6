// What front ends build of a node: constants, movement, reductions.
#include "frontends/common/NodeBuilder.h"

#include <algorithm>
#include <cmath>

using namespace mlir;

namespace knapper {

using ts::Dim;

Value NodeBuilder::constant(DenseElementsAttr data) {
  return makeAs<ts::ConstantOp>(data.getType(), ElementsAttr(data));
}

Value NodeBuilder::scalar(double value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (auto floating = dyn_cast<FloatType>(element)) {
    APFloat number(value);
    bool lost = false;
    number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                   &lost);
    return constant(DenseElementsAttr::get(type, number));
  }
  // Outside the integers the cast has no meaning.
  double bounded = std::isnan(value) ? 0 : std::clamp(value, -9e18, 9e18);
  return integerScalar(static_cast<int64_t>(bounded), element);
}

Value NodeBuilder::integerScalar(int64_t value, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (isa<FloatType>(element))
    return scalar(static_cast<double>(value), element);
  if (element.isInteger(1))
    return constant(DenseElementsAttr::get(type, value != 0));
  return constant(DenseElementsAttr::get(
      type, APInt(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value),
                  /*isSigned=*/false,
                  /*implicitTrunc=*/true)));
}

Value NodeBuilder::scalarFor(Value like, double value) {
  return like ? scalar(value, ts::elementTypeOf(like)) : Value();
}

Value NodeBuilder::splatLike(double value, Value like) {
  if (!like)
    return {};
  return broadcastTo(scalarFor(like, value), ts::dimsOf(like));
}

Value NodeBuilder::sizesTensor(ArrayRef<Dim> dims) {
  Type i64 = b.getI64Type();
  SmallVector<Value> parts;
  for (size_t i = 0; i < dims.size();) {
    if (dims[i].isSymbolic()) {
      Value size =
          makeAs<ts::SizeOp>(RankedTensorType::get({}, i64), dims[i++].attr());
      parts.push_back(reshape(size, {dim(1)}));
      continue;
    }
    SmallVector<int64_t> run;
    while (i < dims.size() && dims[i].asConstant())
      run.push_back(*dims[i++].asConstant());
    parts.push_back(constant(DenseElementsAttr::get(
        RankedTensorType::get({static_cast<int64_t>(run.size())}, i64),
        ArrayRef<int64_t>(run))));
  }
  if (parts.empty())
    return constant(DenseElementsAttr::get(RankedTensorType::get({0}, i64),
                                           ArrayRef<int64_t>()));
  if (parts.size() == 1)
    return parts[0];
  return make<ts::ConcatOp>(ValueRange(parts), int64_t(0));
}

Value NodeBuilder::sizeScalar(Dim size, Type element) {
  if (std::optional<int64_t> number = size.asConstant())
    return integerScalar(*number, element);
  return convert(makeAs<ts::SizeOp>(RankedTensorType::get({}, b.getI64Type()),
                                    size.attr()),
                 element);
}

SmallVector<Dim> NodeBuilder::broadcastDims(ArrayRef<SmallVector<Dim>> shapes) {
  size_t rank = 0;
  for (const SmallVector<Dim> &shape : shapes)
    rank = std::max(rank, shape.size());
  SmallVector<Dim> result;
  for (size_t i = 0; i < rank; ++i) {
    // A number decides; then a bare symbol; then whatever came first.
    Dim chosen = dim(1);
    for (const SmallVector<Dim> &shape : shapes) {
      if (shape.size() + i < rank)
        continue;
      Dim candidate = shape[shape.size() + i - rank];
      if (candidate.isConstant(1) || candidate == chosen)
        continue;
      if (chosen.isConstant(1)) {
        chosen = candidate;
      } else if (shared.isMaybeOne(candidate)) {
        if (shared.isMaybeOne(chosen)) // one of them is 1, or both are equal
          chosen = chosen.max(candidate);
      } else if (shared.isMaybeOne(chosen)) {
        chosen = candidate;
      } else if (candidate.asConstant()) {
        if (chosen.asConstant()) {
          std::string text;
          for (const SmallVector<Dim> &other : shapes) {
            text += text.empty() ? "[" : ", [";
            llvm::interleave(
                other, [&](Dim d) { text += d.str(); }, [&] { text += ", "; });
            text += "]";
          }
          (void)fail("the shapes " + text + " do not broadcast",
                     "make the dims equal, or 1");
          return result;
        }
        chosen = candidate;
      } else if (chosen.isSymbolic() && !chosen.asSymbol() &&
                 candidate.asSymbol()) {
        chosen = candidate;
      }
    }
    result.push_back(chosen);
  }
  return result;
}

SmallVector<Value> NodeBuilder::broadcastAll(ArrayRef<Value> values) {
  SmallVector<SmallVector<Dim>> shapes;
  for (Value value : values) {
    if (!value)
      return SmallVector<Value>(values.size());
    shapes.push_back(ts::dimsOf(value));
  }
  SmallVector<Dim> dims = broadcastDims(shapes);
  SmallVector<Value> result;
  for (Value value : values)
    result.push_back(failed() ? Value() : broadcastTo(value, dims));
  return result;
}

Value NodeBuilder::broadcastTo(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  int64_t rank = ts::rankOf(value), offset = dims.size() - rank;
  if (offset < 0) {
    (void)fail(ts::shapeText(value.getType()) + " has more dims than " +
                   Twine(dims.size()),
               "drop the leading dims of size 1");
    return {};
  }
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < rank; ++i)
    at.push_back(i + offset);
  return broadcastAt(value, at, dims);
}

Value NodeBuilder::broadcastDim(Value value, int64_t axis, Dim size) {
  if (!value)
    return {};
  Dim own = ts::dimOf(value, axis);
  ts::CheckOp::create(b, loc, ((own - 1) * (own - size)).attr(),
                      ts::ComparePredicate::eq, dim(0).attr(),
                      "dim " + std::to_string(axis) +
                          ", which is computed when the model runs, is neither "
                          "1 nor " +
                          size.str() + ", to which it is broadcast");
  Type i64 = b.getI64Type();
  Value last = add(sizeScalar(own, i64), integerScalar(-1, i64));
  Value place = makeAs<ts::IotaOp>(type({size}, i64), uint64_t(0));
  return make<ts::GatherOp>(value, binary<ts::MinOp>(place, last),
                            uint64_t(axis));
}

Value NodeBuilder::broadcastAt(Value value, ArrayRef<int64_t> at,
                               ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  for (size_t i = 0; i < own.size() && i < at.size(); ++i) {
    if (own[i].isConstant(1) || at[i] >= static_cast<int64_t>(dims.size()))
      continue;
    if (shared.isMaybeOne(own[i]) && !(own[i] == dims[at[i]]))
      value = broadcastDim(value, static_cast<int64_t>(i), dims[at[i]]);
    own[i] = dims[at[i]];
  }
  value = castDims(value, own);
  if (!value || own == dims)
    return value;
  return makeAs<ts::BroadcastOp>(type(dims, ts::elementTypeOf(value)), value,
                                 at);
}

Value NodeBuilder::castDims(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  if (ArrayRef<Dim>(own) == dims)
    return value;
  for (auto [a, b] : llvm::zip(own, dims))
    if (a.asConstant() && b.asConstant() && !(a == b)) {
      (void)fail("a dim of " + ts::shapeText(value.getType()) + " should be " +
                     b.str(),
                 "correct the shapes that reach this node");
      return {};
    }
  return makeAs<ts::DimCastOp>(type(dims, ts::elementTypeOf(value)), value);
}

Value NodeBuilder::reshape(Value value, ArrayRef<Dim> dims) {
  if (!value)
    return {};
  SmallVector<Dim> own = ts::dimsOf(value);
  if (ArrayRef<Dim>(own) == dims)
    return value;
  Type element = ts::elementTypeOf(value);
  RankedTensorType to = type(dims, element);
  if (!to)
    return {};
  Dim from = ts::elementCount(value.getType()), count = ts::elementCount(to);
  if (from == count)
    return makeAs<ts::ReshapeOp>(to, value);
  if (from.asConstant() && count.asConstant()) {
    (void)fail(ts::shapeText(value.getType()) + " of " + from.str() +
                   " elements cannot become " + ts::shapeText(to) + " of " +
                   count.str(),
               "correct the requested shape");
    return {};
  }
  Value flat = makeAs<ts::ReshapeOp>(type({from}, element), value);
  return makeAs<ts::ReshapeOp>(to, castDims(flat, {count}));
}

Value NodeBuilder::transpose(Value value, ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (auto [i, dim] : llvm::enumerate(permutation))
    identity &= dim == static_cast<int64_t>(i);
  if (value && identity &&
      static_cast<int64_t>(permutation.size()) == ts::rankOf(value))
    return value;
  return make<ts::TransposeOp>(value, permutation);
}

Value NodeBuilder::convert(Value value, Type element) {
  if (!value || ts::elementTypeOf(value) == element)
    return value;
  return makeAs<ts::ConvertOp>(ts::withElement(value.getType(), element),
                               value);
}

Value NodeBuilder::sliceDim(Value value, int64_t dim, Dim start, Dim count,
                            int64_t step) {
  if (!value)
    return {};
  SmallVector<Dim> dims = ts::dimsOf(value), starts(dims.size(), this->dim(0));
  SmallVector<int64_t> steps(dims.size(), 1);
  if (start.isConstant(0) && step == 1 && dims[dim] == count)
    return value;
  dims[dim] = count;
  starts[dim] = start;
  steps[dim] = step;
  return makeAs<ts::SliceOp>(type(dims, ts::elementTypeOf(value)), value,
                             ts::dimArray(shared.context, starts), steps);
}

Value NodeBuilder::reduce(ts::ReduceKind kind, Value value,
                          ArrayRef<int64_t> dims, bool keep) {
  if (!value)
    return {};
  SmallVector<Dim> kept = ts::dimsOf(value);
  Value result = make<ts::ReduceOp>(kind, value, dims);
  if (!keep)
    return result;
  for (int64_t d : dims)
    kept[d] = dim(1);
  return reshape(result, kept);
}

/// Whether the type has the number.
static bool isExact(std::optional<int64_t> number, FloatType type) {
  if (!number)
    return false;
  llvm::APFloat made(type.getFloatSemantics());
  return made.convertFromAPInt(llvm::APInt(64, *number, true), true,
                               llvm::APFloat::rmNearestTiesToEven) ==
         llvm::APFloat::opOK;
}

Value NodeBuilder::mean(Value value, ArrayRef<int64_t> dims, bool keep) {
  if (!value)
    return {};
  Dim count = dim(1);
  for (int64_t d : dims)
    count = count * ts::dimOf(value, d);
  // 70000 is infinite in f16, 425 is 424 in bf16.
  Type element = ts::elementTypeOf(value);
  bool wide = isa<Float16Type, BFloat16Type>(element) &&
              !isExact(count.asConstant(), cast<FloatType>(element));
  Value sum = reduce(ts::ReduceKind::add,
                     wide ? convert(value, b.getF32Type()) : value, dims, keep);
  if (!sum)
    return {};
  Value result = div(sum, sizeScalar(count, ts::elementTypeOf(sum)));
  return wide ? convert(result, element) : result;
}

Value NodeBuilder::compare(ts::ComparePredicate predicate, Value x, Value y) {
  SmallVector<Value> v = broadcastAll({x, y});
  return make<ts::CompareOp>(predicate, v[0], v[1]);
}

Value NodeBuilder::select(Value condition, Value x, Value y) {
  SmallVector<Value> v = broadcastAll({condition, x, y});
  return make<ts::SelectOp>(v[0], v[1], v[2]);
}

} // namespace knapper
