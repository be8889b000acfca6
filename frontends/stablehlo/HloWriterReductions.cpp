// Matmuls, reductions, windows and sorts as StableHLO's text.
#include "frontends/stablehlo/HloWriter.h"
#include <limits>

using namespace mlir;

namespace knapper {
namespace {

using W = HloWriter;
using T = HloText;
using K = ts::ReduceKind;

Type elementOf(const T &x) { return x.type.getElementType(); }

StringRef combiner(K kind) {
  return kind == K::add           ? "add"
         : kind == K::mul         ? "multiply"
         : kind == K::max         ? "maximum"
         : kind == K::min         ? "minimum"
         : kind == K::logical_and ? "and"
                                  : "or";
}

/// The index of each element of x along the dim: i64.
T indexAlong(W &w, T x, int64_t dim) {
  Type i64 = IntegerType::get(x.type.getContext(), 64);
  return w.make("iota", {}, x.type.clone(i64),
                "iota_dimension = " + std::to_string(dim) + " : i64");
}

/// What changes nothing, a scalar.
T neutral(W &w, K kind, Type element) {
  auto type = RankedTensorType::get({}, element);
  if (kind == K::add || kind == K::logical_or)
    return w.splat(0, type);
  if (kind == K::mul || kind == K::logical_and)
    return w.splat(1, type);
  bool largest = kind == K::min;
  Attribute value;
  if (auto floating = dyn_cast<FloatType>(element)) {
    value = FloatAttr::get(
        element, APFloat::getInf(floating.getFloatSemantics(), !largest));
  } else {
    unsigned width = element.getIntOrFloatBitWidth();
    bool plain = element.isUnsignedInteger() || element.isInteger(1);
    value = IntegerAttr::get(element,
                             largest ? (plain ? APInt::getMaxValue(width)
                                              : APInt::getSignedMaxValue(width))
                             : plain ? APInt::getMinValue(width)
                                     : APInt::getSignedMinValue(width));
  }
  return w.constant(DenseElementsAttr::get(type, value));
}

std::string region(W &w, K kind, Type element) {
  return w.region({element, element}, [&](ArrayRef<T> a) -> SmallVector<T> {
    return {w.binary(combiner(kind), a[0], a[1])};
  });
}

/// Sums of f16 and bf16 are made in f32.
bool isHalf(Type element) { return element.isF16() || element.isBF16(); }
T widened(W &w, T x) {
  return isHalf(elementOf(x))
             ? w.convert(x, Float32Type::get(elementOf(x).getContext()))
             : x;
}

T reduced(W &w, K kind, T x, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < x.type.getRank(); ++i)
    if (!llvm::is_contained(dims, i))
      shape.push_back(x.type.getDimSize(i));
  T begin = neutral(w, kind, elementOf(x));
  return w.make(
      "reduce", {x, begin}, RankedTensorType::get(shape, elementOf(x)),
      "dimensions = " + hloArray(dims), region(w, kind, elementOf(x)));
}

void writeReduce(W &w, Operation *given) {
  auto op = cast<ts::ReduceOp>(given);
  T x = widened(w, w.of(op.getInput()));
  w.out(op, w.convert(reduced(w, op.getKind(), x, op.getDims()),
                      ts::elementTypeOf(op.getResult())));
}

/// Values with their indices: NaN wins, of equal ones the first, or the last.
void writeArgReduce(W &w, Operation *given) {
  auto op = cast<ts::ArgReduceOp>(given);
  T x = w.of(op.getInput());
  auto dim = static_cast<int64_t>(op.getDim());
  Type element = elementOf(x), i64 = IntegerType::get(element.getContext(), 64);
  T index = indexAlong(w, x, dim);
  T first = neutral(w, op.getKind(), element),
    none = w.splat(0, RankedTensorType::get({}, i64));
  std::string wins = w.region(
      {element, i64, element, i64}, [&](ArrayRef<T> a) -> SmallVector<T> {
        T better = w.compare(op.getKind() == K::max ? "GT" : "LT", a[0], a[2]);
        T tie = w.compare("EQ", a[0], a[2]);
        if (isa<FloatType>(element)) {
          T nan = w.compare("NE", a[0], a[0]),
            other = w.compare("NE", a[2], a[2]);
          better = w.binary(
              "or", better,
              w.binary("and", nan, w.make("not", {other}, other.type)));
          tie = w.binary("or", tie, w.binary("and", nan, other));
        }
        T before = w.compare(op.getLast() ? "GT" : "LT", a[1], a[3]);
        T keep = w.binary("or", better, w.binary("and", tie, before));
        return {w.select(keep, a[0], a[2]), w.select(keep, a[1], a[3])};
      });
  // What nothing was compared with yet loses every tie.
  T beyond = op.getLast() ? w.splat(-1, none.type)
                          : w.splat(static_cast<double>(x.type.getDimSize(dim)),
                                    none.type);
  auto type = cast<RankedTensorType>(op.getType());
  auto made = w.makeSeveral("reduce", {x, index, first, beyond},
                            {type.clone(element), type},
                            "dimensions = " + hloArray({dim}), wins);
  w.out(op, made[1]);
}

/// The type that matmuls are summed in.
Type summedIn(Type element, Type result) {
  MLIRContext *context = element.getContext();
  if (isHalf(element))
    return Float32Type::get(context);
  if (isa<IntegerType>(element) && element.getIntOrFloatBitWidth() < 32)
    return IntegerType::get(context, 32);
  return isa<IntegerType>(element) && element.isUnsignedInteger(32) ? element
                                                                    : result;
}

void writeDot(W &w, Operation *given) {
  auto op = cast<ts::DotOp>(given);
  auto type = cast<RankedTensorType>(op.getType());
  T x = w.of(op.getLhs()), y = w.of(op.getRhs());
  if (llvm::any_of(op.getLhsContract(), [&](int64_t dim) {
        return x.type.getDimSize(dim) == 0;
      })) // the interpreter of StableHLO ends the process
    return w.out(op, w.splat(0, type));
  Type wide = summedIn(elementOf(x), type.getElementType());
  x = w.convert(x, wide);
  y = w.convert(y, wide);
  T z = w.make(
      "dot_general", {x, y}, type.clone(wide),
      "dot_dimension_numbers = #stablehlo.dot<"
      "lhs_batching_dimensions = " +
          hloList(op.getLhsBatch()) +
          ", rhs_batching_dimensions = " + hloList(op.getRhsBatch()) +
          ", lhs_contracting_dimensions = " + hloList(op.getLhsContract()) +
          ", rhs_contracting_dimensions = " + hloList(op.getRhsContract()) +
          ">, precision_config = [#stablehlo<precision HIGHEST>, "
          "#stablehlo<precision HIGHEST>]");
  w.out(op, w.convert(z, type.getElementType()));
}

std::string pairs(ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  std::string text;
  for (auto [a, b] : llvm::zip(low, high))
    text += (text.empty() ? "" : ", ") + hloList({a, b});
  return "dense<[" + text + "]> : tensor<" + std::to_string(low.size()) +
         "x2xi64>";
}

void writeConv(W &w, Operation *given) {
  auto op = cast<ts::ConvOp>(given);
  auto type = cast<RankedTensorType>(op.getType());
  T x = w.of(op.getInput()), y = w.of(op.getFilter());
  Type wide = summedIn(elementOf(x), type.getElementType());
  x = w.convert(x, wide);
  y = w.convert(y, wide);
  size_t spatial = op.getStrides().size();
  std::string places;
  for (size_t i = 0; i < spatial; ++i)
    places += ", " + std::to_string(i);
  bool last = op.getChannelsLast();
  std::string of = last ? "[b" + places + ", f]" : "[b, f" + places + "]",
              filter = last ? "[" + StringRef(places).drop_front(2).str() +
                                  (spatial ? ", " : "") + "i, o]"
                            : "[o, i" + places + "]",
              reversal;
  for (size_t i = 0; i < spatial; ++i)
    reversal += (i ? ", " : "") + std::string("false");
  std::string pads =
      spatial ? pairs(hloNumbers(op.getLow()), hloNumbers(op.getHigh()))
              : "dense<> : tensor<0x2xi64>";
  T z = w.make(
      "convolution", {x, y}, type.clone(wide),
      "window_strides = " + hloArray(op.getStrides()) + ", padding = " + pads +
          ", lhs_dilation = " + hloArray(op.getInputDilations()) +
          ", rhs_dilation = " + hloArray(op.getDilations()) +
          ", window_reversal = array<i1" + (spatial ? ": " + reversal : "") +
          ">, dimension_numbers = #stablehlo.conv<" + of + "x" + filter + "->" +
          of + ">, feature_group_count = " + std::to_string(op.getGroups()) +
          " : i64, batch_group_count = 1 : i64, precision_config = "
          "[#stablehlo<precision HIGHEST>, #stablehlo<precision "
          "HIGHEST>]");
  w.out(op, w.convert(z, type.getElementType()));
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

struct WindowsOfDims {
  SmallVector<int64_t> size, strides, dilations, low, high;
};

T windows(W &w, K kind, T x, const WindowsOfDims &of, Type type) {
  SmallVector<int64_t> ones(of.size.size(), 1);
  T begin = neutral(w, kind, elementOf(x));
  return w.make("reduce_window", {x, begin}, type,
                "window_dimensions = " + hloArray(of.size) +
                    ", window_strides = " + hloArray(of.strides) +
                    ", base_dilations = " + hloArray(ones) +
                    ", window_dilations = " + hloArray(of.dilations) +
                    ", padding = " + pairs(of.low, of.high),
                region(w, kind, elementOf(x)));
}

void writePool(W &w, Operation *given) {
  auto op = cast<ts::PoolOp>(given);
  T x = w.of(op.getInput());
  int64_t rank = x.type.getRank();
  WindowsOfDims of{SmallVector<int64_t>(rank, 1), SmallVector<int64_t>(rank, 1),
                   SmallVector<int64_t>(rank, 1), SmallVector<int64_t>(rank, 0),
                   SmallVector<int64_t>(rank, 0)};
  int64_t first = op.getChannelsLast() ? 1 : 2;
  SmallVector<int64_t> low = hloNumbers(op.getLow()),
                       high = hloNumbers(op.getHigh());
  double all = 1;
  auto type = cast<RankedTensorType>(op.getType());
  for (size_t i = 0; i < low.size(); ++i) {
    int64_t at = first + static_cast<int64_t>(i);
    of.size[at] = op.getWindow()[i];
    of.strides[at] = op.getStrides()[i];
    of.dilations[at] = op.getDilations()[i];
    of.low[at] = low[i];
    of.high[at] = high[i];
    all *= static_cast<double>(of.size[at]);
  }
  bool largest = op.getKind() == ts::PoolKind::max;
  if (!largest)
    x = widened(w, x);
  Type wide = elementOf(x);
  T y = windows(w, largest ? K::max : K::add, x, of, type.clone(wide));
  if (op.getKind() == ts::PoolKind::average) {
    T counts = op.getCountPadding()
                   ? w.splat(all, y.type)
                   : windows(w, K::add, w.splat(1, x.type), of, y.type);
    if (op.getCountPadding()) { // what lies behind the pads counts no more
      SmallVector<int64_t> zeros(rank, 0);
      WindowsOfDims inside = of;
      SmallVector<int64_t> shape(x.type.getShape());
      for (int64_t i = 0; i < rank; ++i)
        shape[i] += of.low[i] + of.high[i];
      inside.low = inside.high = zeros;
      counts =
          windows(w, K::add, w.splat(1, RankedTensorType::get(shape, wide)),
                  inside, y.type);
    }
    y = w.binary("divide", y, counts);
  }
  w.out(op, w.convert(y, type.getElementType()));
}

/// Windows of all that is before.
void writeScan(W &w, Operation *given) {
  auto op = cast<ts::ScanOp>(given);
  T x = widened(w, w.of(op.getInput()));
  auto dim = static_cast<int64_t>(op.getDim()), rank = x.type.getRank(),
       count = x.type.getDimSize(dim);
  WindowsOfDims of{SmallVector<int64_t>(rank, 1), SmallVector<int64_t>(rank, 1),
                   SmallVector<int64_t>(rank, 1), SmallVector<int64_t>(rank, 0),
                   SmallVector<int64_t>(rank, 0)};
  SmallVector<int64_t> &pads = op.getReverse() ? of.high : of.low;
  T y = x;
  if (count > 0) {
    of.size[dim] = count;
    pads[dim] = count - 1;
    y = windows(w, op.getKind(), x, of, x.type);
  }
  if (op.getExclusive() && count > 0) {
    SmallVector<int64_t> before(rank, 0), behind(rank, 0), zeros(rank, 0);
    before[dim] = op.getReverse() ? -1 : 1;
    behind[dim] = -before[dim];
    y = w.make("pad", {y, neutral(w, op.getKind(), elementOf(x))}, x.type,
               "edge_padding_low = " + hloArray(before) +
                   ", edge_padding_high = " + hloArray(behind) +
                   ", interior_padding = " + hloArray(zeros));
  }
  w.out(op, w.convert(y, ts::elementTypeOf(op.getResult())));
}

/// A stable sort; NaN counts as the largest.
void writeTopK(W &w, Operation *given) {
  auto op = cast<ts::TopKOp>(given);
  T x = w.of(op.getInput());
  auto dim = static_cast<int64_t>(op.getDim());
  Type element = elementOf(x), i64 = IntegerType::get(element.getContext(), 64);
  T index = indexAlong(w, x, dim);
  std::string order = w.region(
      {element, element, i64, i64}, [&](ArrayRef<T> a) -> SmallVector<T> {
        T before = w.compare(op.getLargest() ? "GT" : "LT", a[0], a[1]);
        if (!isa<FloatType>(element))
          return {before};
        const T &nan = op.getLargest() ? a[0] : a[1],
                &number = op.getLargest() ? a[1] : a[0];
        return {w.binary("or", before,
                         w.binary("and", w.compare("NE", nan, nan),
                                  w.compare("EQ", number, number)))};
      });
  auto sorted = w.makeSeveral(
      "sort", {x, index}, {x.type, index.type},
      "dimension = " + std::to_string(dim) + " : i64, is_stable = true", order);
  for (unsigned i = 0; i < 2; ++i) {
    auto type = cast<RankedTensorType>(op->getResult(i).getType());
    SmallVector<int64_t> zeros(type.getRank(), 0), ones(type.getRank(), 1);
    w.out(op,
          w.make("slice", {sorted[i]}, type,
                 "start_indices = " + hloArray(zeros) +
                     ", limit_indices = " + hloArray(type.getShape()) +
                     ", strides = " + hloArray(ones)),
          i);
  }
}

constexpr HloWriterRow rows[] = {
    {"arg_reduce", writeArgReduce},
    {"conv", writeConv},
    {"dot", writeDot},
    {"pool", writePool},
    {"reduce", writeReduce},
    {"scan", writeScan},
    {"topk", writeTopK},
};

} // namespace

llvm::ArrayRef<HloWriterRow> hloReductionWriters() { return rows; }

} // namespace knapper
