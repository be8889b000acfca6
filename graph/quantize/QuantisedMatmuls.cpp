#include "graph/quantize/QuantisedMatmuls.h"

#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/Match.h"
#include "ir/tensor/SymbolicValue.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace knapper {
#define GEN_PASS_DEF_QUANTISEDMATMULS
#include "graph/quantize/QuantizePasses.h.inc"
} // namespace knapper

namespace {

/// A scale or zero point, as it was before it was spread over a tensor.
struct Parameter {
  Value value;       ///< 0-d, or 1-d along `axis`; null: zero
  int64_t axis = -1; ///< of the tensor; -1: one number for all of it
};

/// A tensor that is (bytes - zero) * scale, or without a scale in i32.
struct Dequantised {
  Value bytes;
  Parameter zero, scale;
};

} // namespace

static bool isByte(Value value) {
  return isa<IntegerType>(elementTypeOf(value)) &&
         elementTypeOf(value).isInteger(8);
}

static std::optional<Parameter> parameterOf(Value value) {
  if (auto convert = value.getDefiningOp<ConvertOp>())
    value = convert.getInput();
  auto spread = value.getDefiningOp<BroadcastOp>();
  if (!spread || rankOf(spread.getInput()) > 1)
    return std::nullopt;
  int64_t axis = rankOf(spread.getInput()) ? spread.getDims()[0] : -1;
  value = spread.getInput();
  if (auto convert = value.getDefiningOp<ConvertOp>();
      convert && isByte(convert.getInput()))
    value = convert.getInput();
  return Parameter{value, axis};
}

/// Bytes converted to i32, as bytes; null for anything else.
static Value bytesOf(Value value) {
  auto convert = value.getDefiningOp<ConvertOp>();
  if (!convert || !elementTypeOf(value).isInteger(32) ||
      !isByte(convert.getInput()))
    return {};
  return convert.getInput();
}

/// Bytes less a zero point, in i32.
static std::optional<Dequantised> centred(Value value) {
  if (Value bytes = bytesOf(value))
    return Dequantised{bytes, {}, {}};
  auto difference = value.getDefiningOp<SubOp>();
  Value bytes = difference ? bytesOf(difference->getOperand(0)) : Value();
  if (!bytes)
    return std::nullopt;
  std::optional<Parameter> zero = parameterOf(difference->getOperand(1));
  if (!zero || !isByte(zero->value))
    return std::nullopt;
  if (isSplat(zero->value, 0))
    zero = Parameter{};
  return Dequantised{bytes, *zero, {}};
}

static std::optional<Dequantised> dequantised(Value value) {
  auto product = value.getDefiningOp<MulOp>();
  auto steps =
      product ? product->getOperand(0).getDefiningOp<ConvertOp>() : ConvertOp();
  if (!steps || !elementTypeOf(value).isF32() ||
      !elementTypeOf(steps.getInput()).isInteger(32))
    return std::nullopt;
  std::optional<Parameter> scale = parameterOf(product->getOperand(1));
  if (!scale || !elementTypeOf(scale->value).isF32())
    return std::nullopt;
  std::optional<Dequantised> found = centred(steps.getInput());
  if (found)
    found->scale = *scale;
  return found;
}

namespace {

/// Makes the matmul at the place of the dot or convolution.
struct QuantisedMatmulBuilder {
  OpBuilder b;
  Location loc;
  int64_t features; ///< dim of the result that parameters of weights run along

  Value as(Value x, Type element) {
    return elementTypeOf(x) == element
               ? x
               : ConvertOp::create(b, loc, withElement(x.getType(), element), x)
                     .getResult();
  }
  Value i32(Value x) { return as(x, b.getI32Type()); }
  Value like(Value x, int64_t number) {
    return makeSplat(b, loc, cast<RankedTensorType>(x.getType()),
                     static_cast<double>(number));
  }
  Value spread(Value x, Value over, ArrayRef<int64_t> at) {
    return makeBroadcast(b, loc, x, dimsOf(over), at);
  }
  template <typename Op> Value binary(Value x, Value y) {
    return Op::create(b, loc, x, y);
  }

  /// Bytes of the wanted sign, and the zero point (i32) that goes with them.
  void move(Dequantised &x, bool isUnsigned) {
    bool stays = elementTypeOf(x.bytes).isUnsignedInteger() == isUnsigned;
    int64_t by = isUnsigned ? 128 : -128;
    bool isMiddle = !stays && x.zero.value &&
                    isSplat(x.zero.value, static_cast<double>(-by));
    if (x.zero.value)
      x.zero.value = i32(x.zero.value);
    if (stays)
      return;
    Value wide = i32(x.bytes);
    x.bytes = as(binary<AddOp>(wide, like(wide, by)),
                 isUnsigned ? b.getIntegerType(8, /*isSigned=*/false)
                            : b.getIntegerType(8));
    if (isMiddle) {
      x.zero = {};
    } else if (x.zero.value) {
      x.zero.value = binary<AddOp>(x.zero.value, like(x.zero.value, by));
    } else {
      x.zero = {makeSplat(b, loc,
                          tensorType(b.getContext(), {}, b.getI32Type()),
                          static_cast<double>(by)),
                -1};
    }
  }
  Value sum(Value bytes, ArrayRef<int64_t> dims) {
    return ReduceOp::create(b, loc, ReduceKind::add, i32(bytes), dims);
  }
  /// A number, or one a feature, over the result.
  Value over(const Parameter &p, Value result) {
    return p.axis < 0 ? spread(p.value, result, {})
                      : spread(p.value, result, {features});
  }
  /// Of so many products a sum: p times the sums of weights, one a feature.
  Value lessColumns(Value sums, Value p, Value columns) {
    columns = binary<MulOp>(columns, spread(p, columns, {}));
    return binary<SubOp>(sums, spread(columns, sums, {features}));
  }
  /// The sums of x at the places of the result, without p for each of `depth`
  /// terms, times q.
  Value lessRows(Value sums, Value rows, ArrayRef<int64_t> at, Value p,
                 int64_t depth, const Parameter &q) {
    if (p)
      rows = binary<SubOp>(rows,
                           spread(binary<MulOp>(p, like(p, depth)), rows, {}));
    rows = spread(rows, sums, at);
    return binary<SubOp>(sums, binary<MulOp>(rows, over(q, sums)));
  }
  Value scaled(Value sums, const Parameter &x, const Parameter &w) {
    Value result = as(sums, b.getF32Type());
    result = binary<MulOp>(result, over(x, result));
    return binary<MulOp>(result, over(w, result));
  }
};

} // namespace

static void multiply(DotOp op) {
  if (!elementTypeOf(op.getResult()).isF32() || !op.getLhsBatch().empty() ||
      op.getLhsContract().size() != 1 || rankOf(op.getRhs()) != 2)
    return;
  Value left = op.getLhs();
  auto resized = left.getDefiningOp<DimCastOp>();
  std::optional<Dequantised> x =
      dequantised(resized ? resized.getInput() : left);
  std::optional<Dequantised> w = dequantised(op.getRhs());
  int64_t along = op.getLhsContract()[0], down = op.getRhsContract()[0];
  std::optional<int64_t> depth = dimsOf(op.getRhs())[down].asConstant();
  constexpr int64_t longest = INT32_MAX / (255 * 255);
  if (!x || !w || x->zero.axis >= 0 || x->scale.axis >= 0 ||
      w->zero.axis == down || w->scale.axis == down || !depth ||
      *depth > longest || !isPackedConstant(w->bytes))
    return;
  QuantisedMatmulBuilder make{OpBuilder(op), op.getLoc(), rankOf(op) - 1};
  if (resized)
    x->bytes = DimCastOp::create(
        make.b, op.getLoc(),
        withElement(left.getType(), elementTypeOf(x->bytes)), x->bytes);
  make.move(*x, /*isUnsigned=*/true);
  make.move(*w, /*isUnsigned=*/false);
  // sum (x - p)(w - q) = sum xw - p sum w - q (sum x - K p)
  Value sums =
      DotOp::create(make.b, op.getLoc(), x->bytes, w->bytes, op.getLhsBatch(),
                    op.getRhsBatch(), op.getLhsContract(), op.getRhsContract(),
                    TypeAttr::get(make.b.getI32Type()));
  Value p = x->zero.value;
  if (p)
    sums = make.lessColumns(sums, p, make.sum(w->bytes, down));
  if (w->zero.value)
    sums =
        make.lessRows(sums, make.sum(x->bytes, along),
                      llvm::to_vector(llvm::seq<int64_t>(0, rankOf(sums) - 1)),
                      p, *depth, w->zero);
  op.replaceAllUsesWith(make.scaled(sums, x->scale, w->scale));
  op.erase();
}

/// The sums of x over each window, one a group: [N, G, spatial..].
static Value windowSums(QuantisedMatmulBuilder &make, ConvOp op, Value x) {
  SmallVector<Dim> dims = dimsOf(x), filter = dimsOf(op.getFilter());
  MLIRContext *context = op.getContext();
  auto groups = static_cast<int64_t>(op.getGroups());
  SmallVector<Dim> apart{dims[0], dims[0].like(groups), filter[1]};
  apart.append(dims.begin() + 2, dims.end());
  x = makeReshape(make.b, op.getLoc(), make.i32(x), apart);
  x = make.sum(x, 2);
  SmallVector<int64_t> window;
  for (Dim size : ArrayRef<Dim>(filter).drop_front(2))
    window.push_back(*size.asConstant());
  SmallVector<Dim> none(window.size(), dims[0].like(0));
  return PoolOp::create(make.b, op.getLoc(), PoolKind::sum, x, window,
                        op.getStrides(), op.getDilations(),
                        dimArray(context, none), dimArray(context, none),
                        /*count_padding=*/false, /*channels_last=*/false);
}

/// [N, G, spatial..] for each feature of the group: [N, F, spatial..].
static Value forFeatures(QuantisedMatmulBuilder &make, ConvOp op, Value rows) {
  SmallVector<Dim> dims = dimsOf(op.getResult()), grouped = dimsOf(rows);
  Dim share = dims[1].floorDiv(dims[1].like(int64_t(op.getGroups())));
  SmallVector<Dim> apart{grouped[0], grouped[1], share};
  apart.append(grouped.begin() + 2, grouped.end());
  SmallVector<int64_t> at{0, 1};
  for (int64_t i = 3; i <= rankOf(rows); ++i)
    at.push_back(i);
  rows = makeBroadcast(make.b, op.getLoc(), rows, apart, at);
  return makeReshape(make.b, op.getLoc(), rows, dims);
}

static void multiply(ConvOp op) {
  bool isExact = elementTypeOf(op.getResult()).isInteger(32) &&
                 elementTypeOf(op.getInput()).isInteger(32);
  if ((!isExact && !elementTypeOf(op.getResult()).isF32()) ||
      op.getChannelsLast() ||
      llvm::any_of(op.getInputDilations(), [](int64_t d) { return d != 1; }))
    return;
  Value image = op.getInput();
  auto resized = image.getDefiningOp<DimCastOp>();
  if (resized)
    image = resized.getInput();
  auto read = isExact ? centred : dequantised;
  std::optional<Dequantised> x = read(image), w = read(op.getFilter());
  if (!x || !w || x->zero.axis >= 0 || x->scale.axis >= 0 || w->zero.axis > 0 ||
      w->scale.axis > 0 || !isPackedConstant(w->bytes))
    return;
  constexpr int64_t longest = INT32_MAX / (255 * 255);
  int64_t depth = 1;
  SmallVector<Dim> filter = dimsOf(op.getFilter());
  for (Dim size : ArrayRef<Dim>(filter).drop_front()) {
    std::optional<int64_t> number = size.asConstant();
    if (!number || *number < 1 || *number > longest / depth)
      return;
    depth *= *number;
  }
  QuantisedMatmulBuilder make{OpBuilder(op), op.getLoc(), /*features=*/1};
  if (resized)
    x->bytes = DimCastOp::create(
        make.b, op.getLoc(),
        withElement(resized.getType(), elementTypeOf(x->bytes)), x->bytes);
  make.move(*x, /*isUnsigned=*/true);
  make.move(*w, /*isUnsigned=*/false);
  Value p = x->zero.value;
  SmallVector<Dim> low = dimsOf(op.getLow()), high = dimsOf(op.getHigh());
  auto isBorder = [](Dim dim) { return !dim.isConstant(0); };
  bool hasBorder = llvm::any_of(low, isBorder) || llvm::any_of(high, isBorder);
  if (hasBorder && (p || w->zero.value)) {
    auto isNegative = [](Dim dim) {
      return lowerBound(dim).value_or(-1) < 0; // a crop
    };
    if (llvm::any_of(low, isNegative) || llvm::any_of(high, isNegative))
      return;
    Dim none = low[0].like(0);
    SmallVector<Dim> before{none, none}, after{none, none};
    llvm::append_range(before, low);
    llvm::append_range(after, high);
    Type byte = elementTypeOf(x->bytes);
    Value border = p ? make.as(p, byte)
                     : makeSplat(make.b, op.getLoc(),
                                 tensorType(op.getContext(), {}, byte), 0);
    x->bytes =
        PadOp::create(make.b, op.getLoc(), x->bytes, border,
                      dimArray(op.getContext(), before),
                      dimArray(op.getContext(), after), PadMode::constant);
    low.assign(low.size(), none);
    high = low;
  }
  Value sums = ConvOp::create(
      make.b, op.getLoc(), x->bytes, w->bytes, op.getStrides(),
      op.getDilations(), op.getInputDilations(), dimArray(op.getContext(), low),
      dimArray(op.getContext(), high), op.getGroups(), /*channels_last=*/false);
  if (p)
    sums = make.lessColumns(
        sums, p,
        make.sum(w->bytes,
                 llvm::to_vector(llvm::seq<int64_t>(1, rankOf(w->bytes)))));
  if (w->zero.value) {
    Value rows = forFeatures(make, op, windowSums(make, op, x->bytes));
    sums = make.lessRows(sums, rows,
                         llvm::to_vector(llvm::seq<int64_t>(0, rankOf(sums))),
                         p, depth, w->zero);
  }
  op.replaceAllUsesWith(isExact ? sums : make.scaled(sums, x->scale, w->scale));
  op.erase();
}

void knapper::multiplyQuantised(func::FuncOp function) {
  function.walk([](Operation *op) {
    if (auto dot = dyn_cast<DotOp>(op))
      multiply(dot);
    else if (auto conv = dyn_cast<ConvOp>(op))
      multiply(conv);
  });
}

namespace {
struct QuantisedMatmulsPass
    : knapper::impl::QuantisedMatmulsBase<QuantisedMatmulsPass> {
  void runOnOperation() override { multiplyQuantised(getOperation()); }
};
} // namespace
