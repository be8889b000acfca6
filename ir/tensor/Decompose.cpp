#include "ir/tensor/Decompose.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/PagedAttention.h"
#include "ir/tensor/ScaledDot.h"
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

struct NormalizedRows {
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
  NormalizedRows rows{b, loc, {static_cast<int64_t>(op.getDim())}};
  Value x = op.getInput();
  Type type = x.getType();
  Value peak = ReduceOp::create(b, loc, ReduceKind::max, x, rows.dims,
                                /*ignores_nan=*/true);
  Value shifted = SubOp::create(b, loc, x, rows.spread(peak, type));
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
  NormalizedRows rows{b, loc, llvm::to_vector(llvm::seq<int64_t>(first, rank))};
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
      Value size = SizeOp::create(
          b, loc, RankedTensorType::get({}, b.getI64Type()), count.attr());
      Value scalar =
          ConvertOp::create(b, loc, RankedTensorType::get({}, wide), size);
      n = BroadcastOp::create(b, loc, sum.getType(), scalar,
                              ArrayRef<int64_t>());
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
  auto mul = [&](Value a, Value v) -> Value {
    return MulOp::create(b, loc, a, v);
  };
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
    parts = {
        ReshapeOp::create(b, loc, tensorType(context, whole, element), both)};
  } else {
    parts = {first, second};
  }
  if (2 * half < depth)
    parts.push_back(slice(2 * half, depth - 2 * half, 1));
  return parts.size() == 1 ? parts[0]
                           : Value(ConcatOp::create(b, loc, parts, 3));
}

Value decomposeGelu(OpBuilder &b, GeluOp op) {
  Location loc = op.getLoc();
  Value x = op.getInput();
  Type type = x.getType();
  auto number = [&](double value) {
    return splatConstant(b, loc, type, value);
  };
  auto mul = [&](Value l, Value r) -> Value {
    return MulOp::create(b, loc, l, r);
  };
  Value inner;
  if (op.getTanh()) {
    // tanh(sqrt(2 / pi) * (x + 0.044715 x^3))
    Value cube = mul(mul(x, x), x);
    Value sum = AddOp::create(b, loc, x, mul(cube, number(0.044715)));
    inner = TanhOp::create(b, loc, mul(sum, number(0.79788456080286535588)));
  } else {
    inner = ErfOp::create(b, loc, mul(x, number(0.70710678118654752440)));
  }
  return mul(mul(x, number(0.5)), AddOp::create(b, loc, inner, number(1)));
}

Value decomposeSoftplus(OpBuilder &b, SoftplusOp op) {
  Location loc = op.getLoc();
  Value x = op.getInput();
  Value power =
      ExpOp::create(b, loc, NegOp::create(b, loc, AbsOp::create(b, loc, x)));
  Value positive =
      MaxOp::create(b, loc, x, splatConstant(b, loc, x.getType(), 0));
  return AddOp::create(b, loc, positive, Log1pOp::create(b, loc, power));
}

/// The scores of an attention [B, H, S, T], and what becomes of them.
struct AttentionScores {
  OpBuilder &b;
  Location loc;
  Type wide; ///< f32, or f64

  Value widen(Value v) {
    Type type = withElement(v.getType(), wide);
    return type == v.getType() ? v : Value(ConvertOp::create(b, loc, type, v));
  }
  Value reshape(Value v, ArrayRef<Dim> dims) {
    Type type = tensorType(b.getContext(), dims, elementTypeOf(v));
    return type == v.getType() ? v : Value(ReshapeOp::create(b, loc, type, v));
  }
  /// Matmuls of [B, H, M, ..] and [B, G, ..]: the heads of a group are rows of
  /// one matrix. Contracts dim 3 of `left` with dim `contract` of `right`.
  Value matmul(Value left, Value right, int64_t contract) {
    SmallVector<Dim> l = dimsOf(left), r = dimsOf(right);
    Dim rows = *l[1].exactDiv(r[1]) * l[2];
    Value merged = reshape(left, {l[0], r[1], rows, l[3]});
    Value result = DotOp::create(
        b, loc, merged, right, ArrayRef<int64_t>{0, 1}, ArrayRef<int64_t>{0, 1},
        ArrayRef<int64_t>{3}, ArrayRef<int64_t>{contract}, TypeAttr::get(wide));
    return reshape(result, {l[0], l[1], l[2], dimsOf(result)[3]});
  }
  Value keep(Value condition, Value scores) {
    Value unseen = splatConstant(b, loc, scores.getType(),
                                 -std::numeric_limits<double>::infinity());
    return SelectOp::create(b, loc, condition, scores, unseen);
  }
  /// A tensor of rank 4 with dims of 1, repeated to the scores' dims.
  Value spread(Value v, Type scores) {
    Type type = withElement(scores, elementTypeOf(v));
    return BroadcastOp::create(b, loc, type, v, ArrayRef<int64_t>{0, 1, 2, 3});
  }
  /// Key t is seen by query s when t <= s + `shift`.
  Value causal(Value scores, Dim shift) {
    SmallVector<Dim> dims = dimsOf(scores);
    Type index = b.getI64Type();
    MLIRContext *context = b.getContext();
    auto line = [&](Dim size) -> Value {
      return IotaOp::create(b, loc, tensorType(context, {size}, index), 0);
    };
    Value query = line(dims[2]), key = line(dims[3]);
    Value offset =
        SizeOp::create(b, loc, RankedTensorType::get({}, index), shift.attr());
    Value last =
        AddOp::create(b, loc, query,
                      BroadcastOp::create(b, loc, query.getType(), offset,
                                          ArrayRef<int64_t>()));
    Type all = withElement(scores.getType(), index);
    Value seen = CompareOp::create(
        b, loc, ComparePredicate::le,
        BroadcastOp::create(b, loc, all, key, ArrayRef<int64_t>{3}),
        BroadcastOp::create(b, loc, all, last, ArrayRef<int64_t>{2}));
    return keep(seen, scores);
  }
  /// Softmax along the last dim, and what a row without a seen key is.
  Value softmax(Value scores, EmptyRow empty) {
    NormalizedRows rows{b, loc, {3}};
    Type type = scores.getType();
    double infinity = std::numeric_limits<double>::infinity();
    Value largest = rows.reduce(ReduceKind::max, scores);
    Type rowType = largest.getType();
    Value zero = splatConstant(b, loc, rowType, 0);
    Value none = CompareOp::create(b, loc, ComparePredicate::eq, largest,
                                   splatConstant(b, loc, rowType, -infinity));
    Value shift = SelectOp::create(b, loc, none, zero, largest);
    Value shifted = SubOp::create(b, loc, scores, rows.spread(shift, type));
    if (empty == EmptyRow::mean)
      shifted = SelectOp::create(
          b, loc, rows.spread(none, withElement(type, b.getI1Type())),
          splatConstant(b, loc, type, 0), shifted);
    Value e = ExpOp::create(b, loc, shifted);
    Value sum = rows.reduce(ReduceKind::add, e);
    Value one = splatConstant(b, loc, rowType, 1);
    Value inverse = DivOp::create(b, loc, one, sum);
    if (empty != EmptyRow::mean) {
      Value instead =
          empty == EmptyRow::zero
              ? zero
              : splatConstant(b, loc, rowType,
                              std::numeric_limits<double>::quiet_NaN());
      inverse = SelectOp::create(b, loc, none, instead, inverse);
    }
    return MulOp::create(b, loc, e, rows.spread(inverse, type));
  }
};

Value decomposeAttention(OpBuilder &b, AttentionOp op) {
  Location loc = op.getLoc();
  Type stored = elementTypeOf(op.getQuery());
  AttentionScores make{b, loc,
                       stored.isF64() ? Type(b.getF64Type()) : b.getF32Type()};
  Value scores = make.matmul(op.getQuery(), op.getKey(), 3);
  Type type = scores.getType();
  auto scaled = [&](Value v, double factor) -> Value {
    return MulOp::create(b, loc, v, splatConstant(b, loc, type, factor));
  };
  scores = scaled(scores, op.getScale().convertToDouble());
  double softcap = op.getSoftcap().convertToDouble();
  if (softcap > 0)
    scores =
        scaled(TanhOp::create(b, loc, scaled(scores, 1 / softcap)), softcap);
  if (Value mask = op.getMask()) {
    if (elementTypeOf(mask).isInteger(1))
      scores = make.keep(make.spread(mask, type), scores);
    else
      scores =
          AddOp::create(b, loc, scores, make.spread(make.widen(mask), type));
  }
  if (op.getCausal()) {
    SmallVector<Dim> dims = dimsOf(type);
    Dim shift = op.getCausalTopLeft() ? dims[3].like(0) : dims[3] - dims[2];
    scores = make.causal(scores, shift);
  }
  Value probabilities = make.softmax(scores, emptyRowOf(op)),
        value = op.getValue();
  // As a kernel by tensor cores would multiply them.
  if (op->hasAttr("ts.narrow_probabilities"))
    probabilities =
        ConvertOp::create(b, loc, withElement(type, stored), probabilities);
  else
    value = make.widen(value);
  Value result = make.matmul(probabilities, value, 2);
  if (elementTypeOf(result) != stored)
    result = ConvertOp::create(b, loc, op.getType(), result);
  return result;
}

} // namespace

EmptyRow emptyRowOf(AttentionOp op) {
  auto text = op->getAttrOfType<StringAttr>("ts.empty_row");
  if (!text)
    return EmptyRow::zero;
  return text == "nan" ? EmptyRow::nan : EmptyRow::mean;
}

void setEmptyRow(AttentionOp op, EmptyRow row) {
  if (row == EmptyRow::zero)
    op->removeAttr("ts.empty_row");
  else
    op->setAttr("ts.empty_row",
                StringAttr::get(op.getContext(),
                                row == EmptyRow::nan ? "nan" : "mean"));
}

static Value decomposeScaledDot(OpBuilder &b, ScaledDotOp op) {
  Value weight = expandedWeight(b, op);
  return DotOp::create(b, op.getLoc(), op.getInput(), weight,
                       ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                       ArrayRef<int64_t>{rankOf(op.getInput()) - 1},
                       ArrayRef<int64_t>{0}, TypeAttr());
}

static Value decomposePackedDot(OpBuilder &b, PackedDotOp op) {
  Value weight = expandedWeight(b, op, dimOf(op.getWeight(), 0)),
        input = op.getInput();
  if (!elementTypeOf(input).isF32())
    input = ConvertOp::create(
        b, op.getLoc(), withElement(input.getType(), b.getF32Type()), input);
  int64_t last = rankOf(input) - 1;
  return DotOp::create(b, op.getLoc(), input, weight, ArrayRef<int64_t>{},
                       ArrayRef<int64_t>{}, ArrayRef<int64_t>{last},
                       ArrayRef<int64_t>{1}, TypeAttr());
}

FailureOr<SmallVector<Value>> decompose(OpBuilder &builder, Operation *op) {
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case<SoftmaxOp>([&](auto o) { return decomposeSoftmax(builder, o); })
          .Case<LayerNormOp>(
              [&](auto o) { return decomposeLayerNorm(builder, o); })
          .Case<RopeOp>([&](auto o) { return decomposeRope(builder, o); })
          .Case<GeluOp>([&](auto o) { return decomposeGelu(builder, o); })
          .Case<SoftplusOp>(
              [&](auto o) { return decomposeSoftplus(builder, o); })
          .Case<AttentionOp>(
              [&](auto o) { return decomposeAttention(builder, o); })
          .Case<PagedAttentionOp>(
              [&](auto o) { return gatheredAttention(builder, o); })
          .Case<GroupedMatmulOp>(
              [&](auto o) { return gatheredMatmul(builder, o); })
          .Case<PackedDotOp>(
              [&](auto o) { return decomposePackedDot(builder, o); })
          .Case<ScaledDotOp>(
              [&](auto o) { return decomposeScaledDot(builder, o); })
          .Default([](Operation *) { return Value(); });
  if (!result)
    return failure();
  return SmallVector<Value>{result};
}

void decomposeAll(Region &region,
                  llvm::function_ref<bool(Operation *)> wanted) {
  SmallVector<Operation *> ops;
  region.walk([&](Operation *op) {
    if (wanted ? wanted(op) : !isa<ElementwiseOpInterface>(op))
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
