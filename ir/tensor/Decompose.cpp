#include "ir/tensor/Decompose.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper::ts {

Value splatConstant(OpBuilder &b, Location loc, Type type, double number) {
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  auto scalarType = RankedTensorType::get({}, element);
  TypedAttr attr;
  if (isa<FloatType>(element))
    attr = b.getFloatAttr(element, number);
  else
    attr = b.getIntegerAttr(element, static_cast<int64_t>(number));
  Value scalar = ConstantOp::create(
      b, loc, DenseElementsAttr::get(scalarType, Attribute(attr)));
  if (tensor.getRank() == 0)
    return scalar;
  return BroadcastOp::create(b, loc, type, scalar, ArrayRef<int64_t>());
}

namespace {

/// The dims of `rank` without those in `dims`: where the kept ones go back.
SmallVector<int64_t> kept(int64_t rank, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> result;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(dims, i))
      result.push_back(i);
  return result;
}

struct Rows {
  OpBuilder &b;
  Location loc;
  SmallVector<int64_t> dims; ///< reduced ones

  Value reduce(ReduceKind kind, Value x) {
    return ReduceOp::create(b, loc, kind, x, dims);
  }
  /// A reduced value, repeated along the reduced dims of `like`.
  Value spread(Value reduced, Type like) {
    int64_t rank = cast<RankedTensorType>(like).getRank();
    return BroadcastOp::create(b, loc, like, reduced, kept(rank, dims));
  }
};

Value decomposeSoftmax(OpBuilder &b, SoftmaxOp op) {
  Location loc = op.getLoc();
  Rows rows{b, loc, {static_cast<int64_t>(op.getDim())}};
  Value x = op.getInput();
  Type type = x.getType();
  Value shifted = SubOp::create(
      b, loc, x, rows.spread(rows.reduce(ReduceKind::max, x), type));
  Value e = ExpOp::create(b, loc, shifted);
  Value sum = rows.reduce(ReduceKind::add, e);
  if (op.getLog())
    return SubOp::create(b, loc, shifted,
                         rows.spread(LogOp::create(b, loc, sum), type));
  // One division a row, a product an element.
  Value one = splatConstant(b, loc, sum.getType(), 1);
  Value inverse = DivOp::create(b, loc, one, sum);
  return MulOp::create(b, loc, e, rows.spread(inverse, type));
}

Value decomposeLayerNorm(OpBuilder &b, LayerNormOp op) {
  Location loc = op.getLoc();
  Value x = op.getInput();
  Type stored = x.getType();
  int64_t rank = rankOf(x), first = op.getDim();
  Rows rows{b, loc, llvm::to_vector(llvm::seq<int64_t>(first, rank))};
  // Statistics are computed in f32 for 16-bit inputs.
  Type wide = elementTypeOf(x).isF64() ? b.getF64Type() : b.getF32Type();
  auto widen = [&](Value v) -> Value {
    Type type = withElement(v.getType(), wide);
    return type == v.getType() ? v : Value(ConvertOp::create(b, loc, type, v));
  };
  x = widen(x);
  Type type = x.getType();
  SmallVector<Dim> all = dimsOf(type);
  Dim count = product(op.getContext(), ArrayRef<Dim>(all).drop_front(first));
  auto mean = [&](Value v) -> Value {
    Value sum = rows.reduce(ReduceKind::add, v);
    Value n;
    if (std::optional<int64_t> number = count.asConstant()) {
      n = splatConstant(b, loc, sum.getType(), static_cast<double>(*number));
    } else {
      Value size = SizeOp::create(b, loc, RankedTensorType::get({}, b.getI64Type()),
                                  count.attr());
      Value scalar =
          ConvertOp::create(b, loc, RankedTensorType::get({}, wide), size);
      n = BroadcastOp::create(b, loc, sum.getType(), scalar, ArrayRef<int64_t>());
    }
    return DivOp::create(b, loc, sum, n);
  };
  Value centred = x;
  if (!op.getRms())
    centred = SubOp::create(b, loc, x, rows.spread(mean(x), type));
  Value variance = mean(MulOp::create(b, loc, centred, centred));
  Value epsilon = splatConstant(b, loc, variance.getType(),
                                op.getEpsilon().convertToDouble());
  Value inverse = DivOp::create(
      b, loc, splatConstant(b, loc, variance.getType(), 1),
      SqrtOp::create(b, loc, AddOp::create(b, loc, variance, epsilon)));
  Value result = MulOp::create(b, loc, centred, rows.spread(inverse, type));
  auto spreadParameter = [&](Value v) -> Value {
    return BroadcastOp::create(b, loc, type, widen(v), rows.dims);
  };
  if (op.getScale())
    result = MulOp::create(b, loc, result, spreadParameter(op.getScale()));
  if (op.getBias())
    result = AddOp::create(b, loc, result, spreadParameter(op.getBias()));
  if (type != stored)
    result = ConvertOp::create(b, loc, stored, result);
  return result;
}

Value decomposeRope(OpBuilder &b, RopeOp op) {
  Location loc = op.getLoc();
  MLIRContext *context = op.getContext();
  Value x = op.getInput();
  SmallVector<Dim> dims = dimsOf(x);
  int64_t depth = *dims[3].asConstant();
  int64_t half = *dimsOf(op.getCos())[2].asConstant();
  Type element = elementTypeOf(x);
  auto slice = [&](int64_t start, int64_t size, int64_t step) -> Value {
    SmallVector<Dim> starts(4, Dim::constant(context, 0)), sizes = dims;
    starts[3] = dims[3].like(start);
    sizes[3] = dims[3].like(size);
    return SliceOp::create(b, loc, tensorType(context, sizes, element), x,
                           dimArray(context, starts),
                           ArrayRef<int64_t>{1, 1, 1, step});
  };
  bool pairs = op.getInterleaved();
  Value even = slice(0, half, pairs ? 2 : 1);
  Value odd = slice(pairs ? 1 : half, half, pairs ? 2 : 1);
  auto spread = [&](Value v) -> Value { // [B or 1, S, half] to [B, H, S, half]
    return BroadcastOp::create(b, loc, even.getType(), v,
                               ArrayRef<int64_t>{0, 2, 3});
  };
  Value c = spread(op.getCos()), s = spread(op.getSin());
  auto mul = [&](Value a, Value v) -> Value { return MulOp::create(b, loc, a, v); };
  Value first = SubOp::create(b, loc, mul(even, c), mul(odd, s));
  Value second = AddOp::create(b, loc, mul(odd, c), mul(even, s));
  SmallVector<Value> parts;
  if (pairs) {
    // Interleave through a new innermost dim.
    SmallVector<Dim> column = dims, whole = dims;
    column[3] = dims[3].like(half);
    column.push_back(dims[3].like(1));
    whole[3] = dims[3].like(2 * half);
    Type columnType = tensorType(context, column, element);
    Value both = ConcatOp::create(
        b, loc,
        ValueRange{ReshapeOp::create(b, loc, columnType, first),
                   ReshapeOp::create(b, loc, columnType, second)},
        4);
    parts = {ReshapeOp::create(b, loc, tensorType(context, whole, element), both)};
  } else {
    parts = {first, second};
  }
  if (2 * half < depth)
    parts.push_back(slice(2 * half, depth - 2 * half, 1));
  return parts.size() == 1 ? parts[0]
                           : Value(ConcatOp::create(b, loc, parts, 3));
}

} // namespace

FailureOr<SmallVector<Value>> decompose(OpBuilder &builder, Operation *op) {
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case<SoftmaxOp>([&](auto o) { return decomposeSoftmax(builder, o); })
          .Case<LayerNormOp>(
              [&](auto o) { return decomposeLayerNorm(builder, o); })
          .Case<RopeOp>([&](auto o) { return decomposeRope(builder, o); })
          .Default([](Operation *) { return Value(); });
  if (!result)
    return failure();
  return SmallVector<Value>{result};
}

void decomposeAll(Region &region,
                  llvm::function_ref<bool(Operation *)> wanted) {
  SmallVector<Operation *> ops;
  region.walk([&](Operation *op) {
    if (isa<SoftmaxOp, LayerNormOp, RopeOp>(op) && (!wanted || wanted(op)))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    OpBuilder builder(op);
    FailureOr<SmallVector<Value>> values = decompose(builder, op);
    if (failed(values))
      continue;
    op->replaceAllUsesWith(*values);
    op->erase();
  }
}

} // namespace knapper::ts
