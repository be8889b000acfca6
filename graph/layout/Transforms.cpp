#include "graph/layout/Transforms.h"

#include "graph/layout/Maker.h"
#include "ir/tensor/Fourier.h"
#include "ir/tensor/FourierPlan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

constexpr int64_t largestMatrix = 64;

/// Where a real transform is two products of matrices of at most this many
/// rows, or one.
constexpr int64_t largestRealMatrix = 128, largestSingleMatrix = 96;

/// The largest divisor of `length` up to `largestMatrix`. If there is none, 1,
/// or the least one of a length that is too large for a matrix.
int64_t divisorOf(int64_t length) {
  for (int64_t d = std::min(largestMatrix, length); d > 1; --d)
    if (length % d == 0)
      return d;
  for (int64_t d = largestMatrix;
       length > kLargestFourierPrime && d * d <= length; ++d)
    if (length % d == 0)
      return d;
  return 1;
}

/// The divisor of `length` that is nearest to its root and leaves matrices of
/// at most `largest` rows, or 1.
int64_t middleDivisor(int64_t length, int64_t largest) {
  for (auto d = static_cast<int64_t>(std::sqrt(length)); d > 1; --d)
    if (length % d == 0)
      return length / d <= largest ? d : 1;
  return 1;
}

/// Multiply-adds an element of a complex transform, and of a real one whose
/// first matrix has `d` rows.
int64_t complexCost(int64_t length) {
  int64_t d = length > largestMatrix ? divisorOf(length) : 1;
  return d == 1 ? 4 * length : 4 * d + complexCost(length / d);
}
int64_t realCost(int64_t length, int64_t d) {
  return 2 * (d > 1 ? d + length / d : length / 2);
}

/// Into how many rows a real transform's first matrix parts `length`; 1: one
/// matrix; 0: the half of a complex transform takes fewer steps.
int64_t firstOfReal(int64_t length) {
  if (length <= largestSingleMatrix)
    return 1;
  if (int64_t d = middleDivisor(length, largestRealMatrix); d > 1)
    return d;
  // One product is done in less time than several of as many steps.
  constexpr int64_t mostRows = 1024;
  int64_t whole = length <= mostRows ? realCost(length, 1) : length * 4;
  int64_t d = middleDivisor(length, mostRows);
  if (d <= 1 && length > kLargestFourierPrime)
    return 0;
  int64_t parted = d > 1 ? realCost(length, d) : length * 4;
  if (complexCost(length) * 3 < std::min(whole, parted) * 2)
    return 0;
  return whole <= parted ? 1 : d;
}

/// Complex numbers; no `im`: they are real.
struct Planes {
  Value re, im;
};

class Products {
public:
  explicit Products(DftOp op)
      : m{OpBuilder(op), op.getLoc()}, op(op), length(op.getLength()),
        element(elementTypeOf(op.getInput())), sign(op.getInverse() ? 1 : -1) {}

  /// What the op computes.
  Value result();

private:
  Value mul(Value x, Value y) { return m.make<MulOp>(x, y); }
  Value add(Value x, Value y) { return m.make<AddOp>(x, y); }
  Value sub(Value x, Value y) { return m.make<SubOp>(x, y); }
  Value transposed(Value x, ArrayRef<int64_t> order) {
    return makeTranspose(m.b, m.loc, x, order);
  }
  Value slice(Value x, int64_t dim, Dim start, Dim count) {
    return makeSlice(m.b, m.loc, x, dim, start, count);
  }
  Dim dim(int64_t value) { return length.like(value); }

  /// The last dim of `x` times a matrix, or dim 1.
  Value times(Value x, Value matrix, int64_t along);
  /// Cosines and sines of 2 pi row * column / length.
  Planes roots(Dim rows, Dim columns, Dim length);
  Planes multiply(Planes a, Planes b);
  /// Along dim 1 of [rows, length, ...rest] with a matmul; the result is
  /// [rows, ...rest, length].
  Planes matrixTransform(Planes x, Dim length);
  Planes complexTransform(Planes x, Dim length);
  /// [rows, 2 * half]
  Value realTransform(Value x);
  Planes split(Value x);
  /// [rows, columns] twice as [rows, 2 * columns], an element of each in turn.
  Value sideBySide(Value a, Value b);
  /// The whole of a symmetric spectrum.
  Planes mirrored(Planes half);

  Maker m;
  DftOp op;
  Dim length;
  Type element;
  double sign;
};

Value Products::times(Value x, Value matrix, int64_t along) {
  return m.make<DotOp>(x, matrix, ArrayRef<int64_t>{}, ArrayRef<int64_t>{},
                       ArrayRef<int64_t>{along}, ArrayRef<int64_t>{0},
                       TypeAttr());
}

Planes Products::roots(Dim rows, Dim columns, Dim length) {
  SmallVector<Dim> dims{rows, columns};
  Type f64 = m.b.getF64Type();
  // The product modulo the length keeps the angle exact.
  Value phase = m.make<ModOp>(mul(m.iota(dims, 0), m.iota(dims, 1)),
                              m.size(length, dims));
  Value turns = m.make<DivOp>(m.convert(phase, f64),
                              m.convert(m.size(length, dims), f64));
  Value angle = mul(turns, m.like(turns, 2 * M_PI));
  Value sine = m.make<SinOp>(angle);
  return {m.convert(m.make<CosOp>(angle), element),
          m.convert(mul(sine, m.like(sine, sign)), element)};
}

Planes Products::multiply(Planes a, Planes b) {
  return {sub(mul(a.re, b.re), mul(a.im, b.im)),
          add(mul(a.re, b.im), mul(a.im, b.re))};
}

Planes Products::matrixTransform(Planes x, Dim length) {
  Planes w = roots(length, length, length);
  Planes y{times(x.re, w.re, 1), times(x.re, w.im, 1)};
  if (!x.im)
    return y;
  return {sub(y.re, times(x.im, w.im, 1)), add(y.im, times(x.im, w.re, 1))};
}

Planes Products::complexTransform(Planes x, Dim length) {
  Dim rows = dimOf(x.re, 0);
  std::optional<int64_t> known = length.asConstant();
  int64_t d = known && *known > largestMatrix ? divisorOf(*known) : 1;
  if (d == 1)
    return matrixTransform(x, length);
  Dim first = dim(d), second = dim(*known / d);
  auto each = [&](Planes x, llvm::function_ref<Value(Value)> change) {
    return Planes{change(x.re), x.im ? change(x.im) : Value()};
  };
  Planes y = matrixTransform(
      each(x,
           [&](Value part) { return m.reshape(part, {rows, first, second}); }),
      first);
  Planes factors = roots(second, first, length);
  SmallVector<Dim> dims{rows, second, first};
  y = multiply(y, each(factors, [&](Value part) {
                 return makeBroadcast(m.b, m.loc, part, dims, {1, 2});
               }));
  y = complexTransform(each(y,
                            [&](Value part) {
                              return m.reshape(transposed(part, {0, 2, 1}),
                                               {rows * first, second});
                            }),
                       second);
  return each(y, [&](Value part) {
    return m.reshape(
        transposed(m.reshape(part, {rows, first, second}), {0, 2, 1}),
        {rows, length});
  });
}

Value Products::sideBySide(Value a, Value b) {
  Dim rows = dimOf(a, 0), columns = dimOf(a, 1);
  SmallVector<Dim> column{rows, columns, dim(1)};
  Value both = m.joined({m.reshape(a, column), m.reshape(b, column)}, 2);
  return m.reshape(both, {rows, columns * 2});
}

Planes Products::split(Value x) {
  Dim rows = dimOf(x, 0), columns = dimOf(x, 1).floorDiv(dim(2));
  Value pairs = m.reshape(x, {rows, columns, dim(2)});
  auto part = [&](int64_t i) {
    return m.reshape(slice(pairs, 2, dim(i), dim(1)), {rows, columns});
  };
  return {part(0), part(1)};
}

Planes Products::mirrored(Planes half) {
  Dim rest = length - (length.floorDiv(dim(2)) + 1);
  auto whole = [&](Value part, bool conjugate) -> Value {
    if (rest.isConstant(0))
      return part;
    SmallVector<Dim> dims{dimOf(part, 0), rest};
    Dim zero = dim(0);
    Value back = SliceOp::create(m.b, m.loc, m.type(dims, element), part,
                                 dimArray(m.b.getContext(), {zero, rest}),
                                 SmallVector<int64_t>{1, -1});
    if (conjugate)
      back = m.make<NegOp>(back);
    Value made = m.joined({part, back}, 1);
    SmallVector<Dim> all{dimOf(part, 0), length};
    if (dimsOf(made) == all)
      return made;
    return DimCastOp::create(m.b, m.loc, m.type(all, element), made);
  };
  return {whole(half.re, false), whole(half.im, true)};
}

Value Products::realTransform(Value x) {
  Dim rows = dimOf(x, 0), half = length.floorDiv(dim(2)) + 1;
  std::optional<int64_t> known = length.asConstant();
  int64_t d = known ? firstOfReal(*known) : 1;
  if (d == 1) {
    Planes w = roots(length, half, length);
    return times(x, sideBySide(w.re, w.im), 1);
  }
  if (d == 0) {
    Planes y = complexTransform({x, Value()}, length);
    return sideBySide(slice(y.re, 1, dim(0), half),
                      slice(y.im, 1, dim(0), half));
  }
  Dim first = dim(d), second = dim(*known / d);
  Planes y =
      matrixTransform({m.reshape(x, {rows, first, second}), Value()}, first);
  Planes factors = roots(second, first, length);
  SmallVector<Dim> dims{rows, second, first};
  y = multiply(y, {makeBroadcast(m.b, m.loc, factors.re, dims, {1, 2}),
                   makeBroadcast(m.b, m.loc, factors.im, dims, {1, 2})});
  // Of the second transform's results those below the half: [rows, first,
  // 2 * second] by [2 * second, 2 * kept].
  Dim kept = dim(*known / 2 / d + 1);
  Planes w = roots(second, kept, second);
  Value matrix = m.joined(
      {sideBySide(w.re, w.im), sideBySide(m.make<NegOp>(w.im), w.re)}, 0);
  Value parts = transposed(m.joined({y.re, y.im}, 1), {0, 2, 1});
  Value made = m.reshape(times(parts, matrix, 2), {rows, first, kept, dim(2)});
  made =
      m.reshape(transposed(made, {0, 2, 1, 3}), {rows, first * kept, dim(2)});
  return m.reshape(slice(made, 1, dim(0), half), {rows, half * 2});
}

Value Products::result() {
  Value x = op.getInput();
  if (op.getFromReal())
    return realTransform(x);
  Planes parts = split(x);
  if (op.getToReal())
    return complexTransform(mirrored(parts), length).re;
  Planes y = complexTransform(parts, length);
  return sideBySide(y.re, y.im);
}

/// A real transform as a complex one of the same length, of which a half is
/// read or given.
DftOp asComplex(DftOp op) {
  Maker m{OpBuilder(op), op.getLoc()};
  Value x = op.getInput();
  Dim length(op.getLength()), two = length.like(2), one = length.like(1),
                              zero = length.like(0), rows = dimOf(x, 0);
  Dim half = length.floorDiv(two) + 1, rest = length - half;
  SmallVector<Dim> pairs{rows, length, two};
  Type element = elementTypeOf(x);
  if (op.getFromReal()) {
    x = m.padded(m.reshape(x, {rows, length, one}), 2, one, 0);
  } else {
    Value given = m.reshape(x, {rows, half, two});
    SmallVector<Dim> dims{rows, rest, two};
    Value back = SliceOp::create(m.b, m.loc, m.type(dims, element), given,
                                 dimArray(m.b.getContext(), {zero, rest, zero}),
                                 SmallVector<int64_t>{1, -1, 1});
    Value re = makeSlice(m.b, m.loc, back, 2, zero, one),
          im = m.make<NegOp>(makeSlice(m.b, m.loc, back, 2, one, one));
    x = m.joined({given, m.joined({re, im}, 2)}, 1);
  }
  auto made =
      DftOp::create(m.b, m.loc, m.reshape(x, {rows, length * 2}), Value(),
                    op.getLength(), op.getInverse(), false, false);
  Value y = m.reshape(made, pairs);
  y = op.getFromReal()
          ? m.reshape(makeSlice(m.b, m.loc, y, 1, zero, half), {rows, half * 2})
          : m.reshape(makeSlice(m.b, m.loc, y, 2, zero, one), {rows, length});
  op.replaceAllUsesWith(y);
  op.erase();
  return made;
}

/// Whether passes take less time than matmuls with matrices. `padded`: half of
/// what they transform is zeros or not needed.
bool prefersPasses(const FourierPlan &plan, bool padded) {
  constexpr int64_t least = 16, leastPaddedChirp = 1000;
  // Its table is a constant of the artefact: a few dozen MiB.
  constexpr int64_t most = 1 << 22;
  return plan.passLength <= most &&
         plan.complexLength >=
             (plan.isChirp() && padded ? leastPaddedChirp : least);
}

/// Gives the op its table; false: it has no plan.
bool plan(DftOp op) {
  std::optional<int64_t> length = Dim(op.getLength()).asConstant();
  bool real = op.getFromReal() || op.getToReal();
  if (!length)
    return false;
  bool padded = real && *length % 2 != 0;
  std::optional<FourierPlan> plan = fourierPlan(*length, real && !padded);
  if (!plan || !prefersPasses(*plan, padded))
    return false;
  if (padded)
    op = asComplex(op);
  OpBuilder b(op);
  std::vector<double> table = fourierTable(*plan, op.getInverse() ? 1 : -1);
  Type element = elementTypeOf(op.getInput());
  RankedTensorType type = RankedTensorType::get({plan->tableSize}, element);
  std::vector<float> single(table.begin(), table.end());
  DenseElementsAttr data = element.isF64()
                               ? DenseElementsAttr::get(type, ArrayRef(table))
                               : DenseElementsAttr::get(type, ArrayRef(single));
  op.getTableMutable().assign(ConstantOp::create(b, op.getLoc(), type, data));
  return true;
}

} // namespace

void knapper::lowerTransforms(func::FuncOp function, bool passes) {
  Block &block = function.getBody().front();
  for (DftOp op : SmallVector<DftOp>(block.getOps<DftOp>()))
    if (!op.getTable() && !(passes && plan(op))) {
      op.replaceAllUsesWith(Products(op).result());
      op.erase();
    }
}
