// Elementwise ops: a scalar function in double or int64 for each.
#include "ir/tensor/reference/Call.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;

namespace knapper::ts::reference {
namespace {

using I = int64_t;
using U = uint64_t;

/// Integers wrap in 64 bits here and to their own width when stored.
I wrapNeg(I x) { return static_cast<I>(0 - static_cast<U>(x)); }
U wrapNeg(U x) { return 0 - x; }
I absolute(I x) { return x < 0 ? wrapNeg(x) : x; }
U absolute(U x) { return x; }

I divide(I x, I y) {
  if (y == 0)
    return 0;
  return y == -1 ? wrapNeg(x) : x / y;
}
U divide(U x, U y) { return y == 0 ? 0 : x / y; }
I remainder(I x, I y) { return y == 0 || y == -1 ? 0 : x % y; }
U remainder(U x, U y) { return y == 0 ? 0 : x % y; }
U modulo(U x, U y) { return remainder(x, y); }
I modulo(I x, I y) {
  I r = remainder(x, y);
  return r != 0 && ((r < 0) != (y < 0)) ? r + y : r;
}
double modulo(double x, double y) {
  double r = std::fmod(x, y);
  return r != 0 && ((r < 0) != (y < 0)) ? r + y : r;
}
U power(U base, U y) {
  U result = 1;
  for (; y; y >>= 1, base *= base)
    if (y & 1)
      result *= base;
  return result;
}
I power(I x, I y) {
  if (y < 0) // 1 / x^-y, truncated
    return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  return static_cast<I>(power(static_cast<U>(x), static_cast<U>(y)));
}
template <typename T> T maximum(T x, T y) {
  return combine(ReduceKind::max, x, y);
}
template <typename T> T minimum(T x, T y) {
  return combine(ReduceKind::min, x, y);
}
template <typename T> T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x; // NaN and -0 stay
}

double gelu(double x, bool tanh) {
  if (tanh)
    return 0.5 * x *
           (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  // erfc keeps relative accuracy where 1 + erf cancels.
  return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
}

template <typename T> bool compares(ComparePredicate predicate, T x, T y) {
  switch (predicate) {
  case ComparePredicate::eq:
    return x == y;
  case ComparePredicate::ne:
    return x != y;
  case ComparePredicate::lt:
    return x < y;
  case ComparePredicate::le:
    return x <= y;
  case ComparePredicate::gt:
    return x > y;
  case ComparePredicate::ge:
    return x >= y;
  }
  return false;
}

template <typename T, typename F> HostTensor unary(const Call &call, F f) {
  std::vector<T> x = call.in[0].load<T>();
  for (T &value : x)
    value = f(value);
  return HostTensor::store(call.dtypes[0], call.shapes[0], x);
}
template <typename T, typename F> HostTensor binary(const Call &call, F f) {
  std::vector<T> x = call.in[0].load<T>(), y = call.in[1].load<T>();
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = f(x[i], y[i]);
  return HostTensor::store(call.dtypes[0], call.shapes[0], x);
}

/// To a float of eight or four bits.
HostTensor toSmallFloat(ConvertOp op, const Call &call,
                        const std::vector<double> &values) {
  int rounding = op.getRounding() == Rounding::up     ? 1
                 : op.getRounding() == Rounding::down ? -1
                                                      : 0;
  bool saturate = op.getSaturate();
  HostTensor result = HostTensor::allocate(call.dtypes[0], call.shapes[0]);
  for (size_t i = 0; i < values.size(); ++i)
    result.mutableData()[i] =
        doubleToSmallFloat(call.dtypes[0], values[i], saturate, rounding);
  return result;
}

HostTensor convert(ConvertOp op, const Call &call) {
  const HostTensor &input = call.in[0];
  DType to = call.dtypes[0];
  if (HostTensor::isFloat(to)) {
    if (isStorage(to))
      return toSmallFloat(op, call, input.load<double>());
    if (input.isFloat())
      return unary<double>(call, [](double x) { return x; });
    // An i64 goes to its float in one rounding: to double first would be two.
    return Call::wide(input.dtype(), [&](auto t) {
      std::vector<decltype(t)> x = input.load<decltype(t)>();
      std::vector<double> wide(x.size());
      for (size_t i = 0; i < x.size(); ++i)
        wide[i] = to == DType::f32
                      ? static_cast<double>(static_cast<float>(x[i]))
                      : static_cast<double>(x[i]);
      return HostTensor::store(to, call.shapes[0], wide);
    });
  }
  if (!input.isFloat())
    return unary<I>(call, [](I x) { return x; });
  std::vector<double> x = input.load<double>();
  if (to == DType::u64) {
    std::vector<U> wide(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      wide[i] = !(x[i] > 0)      ? 0 // NaN too
                : x[i] >= 0x1p64 ? ~U(0)
                                 : static_cast<U>(x[i]);
    return HostTensor::store(to, call.shapes[0], wide);
  }
  std::vector<I> wide(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (to == DType::i1) {
      wide[i] = x[i] != 0; // NaN is true
    } else if (std::isnan(x[i])) {
      wide[i] = 0;
    } else {
      I low = neutral<I>(ReduceKind::max, to);
      I high = neutral<I>(ReduceKind::min, to);
      if (isStorage(to)) {
        low = to == DType::i4 ? -8 : to == DType::i2 ? -2 : 0;
        high = to == DType::i4 ? 7 : to == DType::u4 ? 15 : low + 3;
      }
      wide[i] = x[i] <= static_cast<double>(low)    ? low
                : x[i] >= static_cast<double>(high) ? high
                                                    : static_cast<I>(x[i]);
    }
  }
  return HostTensor::store(to, call.shapes[0], wide);
}

HostTensor bitcast(const Call &call) {
  const HostTensor &input = call.in[0];
  HostTensor result = HostTensor::allocate(call.dtypes[0], call.shapes[0]);
  std::memcpy(result.mutableData(), input.data(), input.bytes());
  DType to = call.dtypes[0];
  for (size_t i = 0; i < result.bytes(); ++i) {
    uint8_t &byte = result.mutableData()[i];
    if (to == DType::i1)
      byte = byte != 0;
    else if (to == DType::f4e2m1)
      byte &= 15;
    else if (to == DType::f6e2m3 || to == DType::f6e3m2)
      byte &= 63;
    else if (isStorage(to) && !isFloat(to))
      byte = static_cast<uint8_t>(smallInteger(to, byte));
  }
  return result;
}

HostTensor select(const Call &call) {
  const HostTensor &condition = call.in[0];
  HostTensor result = HostTensor::allocate(call.dtypes[0], call.shapes[0]);
  size_t size = byteSize(call.dtypes[0]);
  for (int64_t i = 0; i < result.elements(); ++i)
    std::memcpy(result.mutableData() + i * size,
                call.in[condition.data()[i] ? 1 : 2].data() + i * size, size);
  return result;
}

HostTensor compare(CompareOp op, const Call &call) {
  ComparePredicate predicate = op.getPredicate();
  return Call::wide(call.in[0].dtype(), [&](auto t) {
    using T = decltype(t);
    std::vector<T> x = call.in[0].load<T>(), y = call.in[1].load<T>();
    std::vector<I> result(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      result[i] = compares(predicate, x[i], y[i]);
    return HostTensor::store(DType::i1, call.shapes[0], result);
  });
}

template <typename F> HostTensor test(const Call &call, F f) {
  std::vector<double> x = call.in[0].load<double>();
  std::vector<I> result(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    result[i] = f(x[i]);
  return HostTensor::store(DType::i1, call.shapes[0], result);
}

template <bool left> HostTensor shift(const Call &call) {
  U width = 8 * byteSize(call.dtypes[0]);
  U mask = width == 64 ? ~U(0) : (U(1) << width) - 1;
  return binary<I>(call, [&](I x, I y) -> I {
    U amount = static_cast<U>(y) & mask;
    if (amount >= width)
      return 0;
    return static_cast<I>(left ? static_cast<U>(x) << amount
                               : (static_cast<U>(x) & mask) >> amount);
  });
}

} // namespace

std::optional<Results> evaluateElementwise(const Call &call) {
  bool isFloat = !call.in.empty() && call.in[0].isFloat();
  bool isU64 = !call.in.empty() && call.in[0].dtype() == DType::u64;
  std::optional<HostTensor> result;
  llvm::TypeSwitch<Operation *> ops(call.op);

// A float function; a function for both kinds; an integer function.
#define FLOAT1(OP, EXPR)                                                       \
  ops.Case([&](OP) {                                                           \
    result = unary<double>(call, [](double x) -> double { return EXPR; });     \
  });
#define NUMBER1(OP, FLOATEXPR, INTEXPR)                                        \
  ops.Case([&](OP) {                                                           \
    result = isFloat ? unary<double>(                                          \
                           call, [](double x) -> double { return FLOATEXPR; }) \
             : isU64 ? unary<U>(call, [](U x) -> U { return INTEXPR; })        \
                     : unary<I>(call, [](I x) -> I { return INTEXPR; });       \
  });
#define NUMBER2(OP, FLOATEXPR, INTEXPR)                                        \
  ops.Case([&](OP) {                                                           \
    result = isFloat ? binary<double>(call,                                    \
                                      [](double x, double y) -> double {       \
                                        return FLOATEXPR;                      \
                                      })                                       \
             : isU64 ? binary<U>(call, [](U x, U y) -> U { return INTEXPR; })  \
                     : binary<I>(call, [](I x, I y) -> I { return INTEXPR; }); \
  });
#define INT2(OP, EXPR)                                                         \
  ops.Case([&](OP) {                                                           \
    result = binary<I>(call, [](I x, I y) -> I { return EXPR; });              \
  });
  NUMBER1(NegOp, -x, wrapNeg(x))
  NUMBER1(AbsOp, std::fabs(x), absolute(x))
  NUMBER1(SignOp, sign(x), sign(x))
  FLOAT1(ExpOp, std::exp(x))
  FLOAT1(Expm1Op, std::expm1(x))
  FLOAT1(LogOp, std::log(x))
  FLOAT1(Log1pOp, std::log1p(x))
  FLOAT1(SqrtOp, std::sqrt(x))
  FLOAT1(RsqrtOp, 1 / std::sqrt(x))
  FLOAT1(TanhOp, std::tanh(x))
  FLOAT1(SigmoidOp, 1 / (1 + std::exp(-x)))
  FLOAT1(SoftplusOp, std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))))
  FLOAT1(ErfOp, std::erf(x))
  FLOAT1(SinOp, std::sin(x))
  FLOAT1(CosOp, std::cos(x))
  FLOAT1(TanOp, std::tan(x))
  FLOAT1(AsinOp, std::asin(x))
  FLOAT1(AcosOp, std::acos(x))
  FLOAT1(AtanOp, std::atan(x))
  FLOAT1(SinhOp, std::sinh(x))
  FLOAT1(CoshOp, std::cosh(x))
  FLOAT1(AsinhOp, std::asinh(x))
  FLOAT1(AcoshOp, std::acosh(x))
  FLOAT1(AtanhOp, std::atanh(x))
  FLOAT1(CeilOp, std::ceil(x))
  FLOAT1(FloorOp, std::floor(x))
  FLOAT1(RoundEvenOp, std::nearbyint(x))
  FLOAT1(TruncOp, std::trunc(x))
  NUMBER2(AddOp, x + y, combine(ReduceKind::add, x, y))
  NUMBER2(SubOp, x - y, combine(ReduceKind::add, x, wrapNeg(y)))
  NUMBER2(MulOp, x * y, combine(ReduceKind::mul, x, y))
  NUMBER2(DivOp, x / y, divide(x, y))
  NUMBER2(ModOp, modulo(x, y), modulo(x, y))
  NUMBER2(RemOp, std::fmod(x, y), remainder(x, y))
  NUMBER2(PowOp, std::pow(x, y), power(x, y))
  NUMBER2(MaxOp, maximum(x, y), maximum(x, y))
  NUMBER2(MinOp, minimum(x, y), minimum(x, y))
  NUMBER2(Atan2Op, std::atan2(x, y), 0)
  INT2(AndOp, (x & y))
  INT2(OrOp, x | y)
  INT2(XorOp, x ^ y)
#undef FLOAT1
#undef NUMBER1
#undef NUMBER2
#undef INT2

  ops.Case([&](NotOp) {
    // i1 keeps 0 and 1: its complement of every bit is logical not.
    bool logical = call.dtypes[0] == DType::i1;
    result = unary<I>(call, [&](I x) -> I { return logical ? !x : ~x; });
  });
  ops.Case([&](ShiftLeftOp) { result = shift<true>(call); });
  ops.Case([&](ShiftRightOp) { result = shift<false>(call); });
  ops.Case([&](GeluOp op) {
    bool tanh = op.getTanh();
    result = unary<double>(call, [&](double x) { return gelu(x, tanh); });
  });
  ops.Case([&](ConvertOp op) { result = convert(op, call); });
  ops.Case([&](BitcastOp) { result = bitcast(call); });
  ops.Case([&](SelectOp) { result = select(call); });
  ops.Case([&](CompareOp op) { result = compare(op, call); });
  ops.Case([&](IsNanOp) {
    result = test(call, [](double x) { return std::isnan(x); });
  });
  ops.Case([&](IsInfOp op) {
    bool positive = op.getPositive(), negative = op.getNegative();
    result = test(call, [&](double x) {
      return std::isinf(x) && (x > 0 ? positive : negative);
    });
  });
  if (!result)
    return std::nullopt;
  return Results(SmallVector<HostTensor>{*result});
}

} // namespace knapper::ts::reference
