// What is not a function of one float: pow, atan2, remainders, integer powers,
// classes, clamps, random numbers; and that everything links without libraries,
// in all element types and widths.

#include "codegen/math/Math.h"
#include "targets/cpu/testing/math/Unary.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <bit>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::vecmath::testing;

namespace {

/// Pairs of arguments: all of the special ones with each other, random bits,
/// and random numbers of usual size.
template <typename T> struct Pairs {
  std::vector<T> x, y;

  explicit Pairs(unsigned count) {
    using Limits = std::numeric_limits<T>;
    const T special[] = {0,
                         T(-0.0),
                         1,
                         -1,
                         2,
                         -2,
                         3,
                         -3,
                         0.5,
                         -0.5,
                         1.5,
                         -1.5,
                         10,
                         -10,
                         7,
                         -7,
                         INFINITY,
                         -INFINITY,
                         NAN,
                         Limits::max(),
                         Limits::lowest(),
                         Limits::min(),
                         Limits::denorm_min(),
                         -Limits::denorm_min(),
                         T(1) - Limits::epsilon() / 2,
                         T(1) + Limits::epsilon(),
                         1e10,
                         -1e10,
                         16777216};
    for (T a : special)
      for (T b : special)
        add(a, b);
    std::mt19937_64 random(11);
    auto unit = [&] { return T(random() >> 11) * T(0x1p-53); };
    auto anything = [&] {
      using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
      return std::bit_cast<T>(Bits(random()));
    };
    while (x.size() < count) {
      add(anything(), anything());
      add(unit() * 10, (unit() - T(0.5)) * 20);
      add(1 + (unit() - T(0.5)) / 16, (unit() - T(0.5)) * 2000);
      add((unit() - T(0.5)) * 100, std::floor(unit() * 20) - 10);
      add(std::exp2((unit() - T(0.5)) * 40), (unit() - T(0.5)) * 8);
    }
    x.resize(count);
    y.resize(count);
  }
  void add(T a, T b) {
    x.push_back(a);
    y.push_back(b);
  }
};

class SpecialTest : public ::testing::TestWithParam<std::string_view> {
public:
  void SetUp() override {
    bool here = false;
    for (std::string_view isa : isasHere())
      here |= isa == GetParam();
    if (!here)
      GTEST_SKIP() << "this machine does not run " << GetParam();
  }

  std::unique_ptr<Kernels> compile(llvm::ArrayRef<Function> functions,
                                   const std::string &element,
                                   unsigned lanes = 16) {
    auto kernels = Kernels::compile(functions, element, lanes, GetParam());
    if (kernels)
      return std::move(*kernels);
    ADD_FAILURE() << kernels.error().message();
    return nullptr;
  }

  /// The worst error of a function of two arguments.
  template <typename T, typename Reference>
  void compare(const Function &f, Reference reference, double bound) {
    constexpr unsigned kCount = 1 << 18;
    auto kernels = compile(f, sizeof(T) == 4 ? "f32" : "f64");
    ASSERT_TRUE(kernels);
    Pairs<T> in(kCount);
    std::vector<T> out(kCount);
    kernels->call(f.name, {in.x.data(), in.y.data(), out.data()}, kCount);
    double worst = 0;
    unsigned at = 0;
    for (unsigned i = 0; i < kCount; ++i) {
      double error;
      if constexpr (sizeof(T) == 4)
        error = ulpsF32(out[i], reference(double(in.x[i]), double(in.y[i])));
      else
        error = ulpsF64(out[i],
                        reference((long double)in.x[i], (long double)in.y[i]));
      if (error > worst) {
        worst = error;
        at = i;
      }
    }
    std::printf("| %s | %s | %.3f | %a, %a |\n", f.name.c_str(),
                sizeof(T) == 4 ? "f32" : "f64", worst, double(in.x[at]),
                double(in.y[at]));
    EXPECT_LE(worst, bound)
        << "at (" << in.x[at] << ", " << in.y[at] << "), got " << out[at];
  }
};

TEST_P(SpecialTest, PowF32) {
  compare<float>(
      ofOp<math::PowFOp>("pow", 2),
      [](double x, double y) { return std::pow(x, y); }, 0.51);
}
TEST_P(SpecialTest, PowF64) {
  compare<double>(
      ofOp<math::PowFOp>("pow", 2),
      [](long double x, long double y) { return std::pow(x, y); }, 2);
}
TEST_P(SpecialTest, Atan2F32) {
  compare<float>(
      ofOp<math::Atan2Op>("atan2", 2),
      [](double x, double y) { return std::atan2(x, y); }, 3);
}
TEST_P(SpecialTest, Atan2F64) {
  compare<double>(
      ofOp<math::Atan2Op>("atan2", 2),
      [](long double x, long double y) { return std::atan2(x, y); }, 3);
}
TEST_P(SpecialTest, RemainderF32) {
  compare<float>(
      ofOp<arith::RemFOp>("rem", 2),
      [](double x, double y) { return std::fmod(x, y); }, 0);
}
TEST_P(SpecialTest, RemainderF64) {
  compare<double>(
      ofOp<arith::RemFOp>("rem", 2),
      [](long double x, long double y) { return std::fmod(x, y); }, 0);
}

// The error of -x/sqrt(2), squared in the exponent, is x^2 units of the result.
TEST_P(SpecialTest, GeluF64FarBelowZero) {
  auto kernels = compile(ofBuilder("gelu_erf", buildGeluErf), "f64");
  ASSERT_TRUE(kernels);
  std::vector<double> x, y(576); // to -37: normal results
  for (unsigned i = 0; i < y.size(); ++i)
    x.push_back(-1 - i / 16.0);
  kernels->call("gelu_erf", {x.data(), y.data()}, y.size());
  for (unsigned i = 0; i < y.size(); ++i) {
    long double exact = 0.5L * x[i] * std::erfc(-x[i] / std::sqrt(2.0L));
    EXPECT_LE(std::abs(y[i] - exact), -exact * (x[i] * x[i] + 8) * 0x1p-52L)
        << "of " << x[i];
  }
}

// A result that is not zero would be one for what comes after it: floor.
TEST_P(SpecialTest, GeluF32FarBelowZero) {
  auto kernels = compile(ofBuilder("gelu_erf", buildGeluErf), "f32");
  ASSERT_TRUE(kernels);
  std::vector<float> x{-1e30f, -3.4e38f, -100, -10}, y(64);
  for (unsigned i = 4; i < y.size(); ++i)
    x.push_back(-6 - float(i) / 16); // to -9.9375
  kernels->call("gelu_erf", {x.data(), y.data()}, y.size());
  for (unsigned i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], 0) << "of " << x[i];
    EXPECT_TRUE(std::signbit(y[i])) << "of " << x[i];
  }
  for (unsigned i = 4; i < y.size(); ++i) {
    double exact = 0.5 * x[i] * std::erfc(-x[i] / std::sqrt(2.0));
    EXPECT_LE(y[i], 0) << "of " << x[i];
    EXPECT_GE(y[i], exact) << "of " << x[i];
  }
}

TEST_P(SpecialTest, PowConstant) {
  struct Case {
    const char *name;
    double exponent;
    double bound;
  };
  for (auto [name, exponent, bound] :
       {Case{"one", 1, 0}, Case{"two", 2, 0.5}, Case{"three", 3, 1.6},
        Case{"inverse", -1, 0.5}, Case{"root", 0.5, 0.5}, Case{"zero", 0, 0},
        Case{"five", 5, 0.51}, Case{"halves", 1.5, 0.51}}) {
    Function f{
        name, 1, 1, [exponent](OpBuilder &b, Location loc, ValueRange x) {
          auto type = cast<VectorType>(x[0].getType());
          Value y = arith::ConstantOp::create(
              b, loc,
              DenseElementsAttr::get(
                  type,
                  Attribute(FloatAttr::get(type.getElementType(), exponent))));
          return SmallVector<Value>{math::PowFOp::create(b, loc, x[0], y)};
        }};
    auto kernels = compile(f, "f32");
    ASSERT_TRUE(kernels);
    Pairs<float> in(1 << 14);
    std::vector<float> out(in.x.size());
    kernels->call(name, {in.x.data(), out.data()}, out.size());
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_LE(ulpsF32(out[i], std::pow(double(in.x[i]), exponent)), bound)
          << in.x[i] << " to the " << exponent << " got " << out[i];
  }
}

TEST_P(SpecialTest, IntegerPower) {
  auto kernels = compile(ofOp<math::IPowIOp>("ipowi", 2), "i32");
  ASSERT_TRUE(kernels);
  std::vector<int32_t> x, y;
  for (int a = -8; a < 8; ++a)
    for (int b = -8; b < 8; ++b) {
      x.push_back(a);
      y.push_back(b);
    }
  std::vector<int32_t> out(x.size());
  kernels->call("ipowi", {x.data(), y.data(), out.data()}, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    int32_t want = 1;
    for (int k = 0; k < y[i]; ++k)
      want *= x[i];
    if (y[i] < 0)
      want = x[i] == 1 ? 1 : x[i] == -1 ? (y[i] % 2 ? -1 : 1) : 0;
    EXPECT_EQ(out[i], want) << x[i] << " to the " << y[i];
  }
}

TEST_P(SpecialTest, FloatToIntegerPower) {
  Function f{"fpowi", 1, 1, [](OpBuilder &b, Location loc, ValueRange x) {
               auto type = cast<VectorType>(x[0].getType());
               auto n = VectorType::get(type.getShape(), b.getI32Type());
               Value exponent = arith::ConstantOp::create(
                   b, loc, DenseElementsAttr::get(n, b.getI32IntegerAttr(-3)));
               return SmallVector<Value>{
                   math::FPowIOp::create(b, loc, x[0], exponent)};
             }};
  auto kernels = compile(f, "f32");
  ASSERT_TRUE(kernels);
  Pairs<float> in(1 << 12);
  std::vector<float> out(in.x.size());
  kernels->call("fpowi", {in.x.data(), out.data()}, out.size());
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_LE(ulpsF32(out[i], std::pow(double(in.x[i]), -3)), 0.51) << in.x[i];
}

TEST_P(SpecialTest, SinCos) {
  auto kernels = compile(ofOp<math::SincosOp>("sincos", 1, 2), "f32");
  ASSERT_TRUE(kernels);
  Pairs<float> in(1 << 14);
  std::vector<float> sine(in.x.size()), cosine(in.x.size());
  kernels->call("sincos", {in.x.data(), sine.data(), cosine.data()},
                in.x.size());
  for (size_t i = 0; i < in.x.size(); ++i) {
    ASSERT_LE(ulpsF32(sine[i], std::sin(double(in.x[i]))), 1.5) << in.x[i];
    ASSERT_LE(ulpsF32(cosine[i], std::cos(double(in.x[i]))), 1.5) << in.x[i];
  }
}

template <typename Op> static Function classOf(const char *name) {
  return {name, 1, 1,
          [](OpBuilder &b, Location loc, ValueRange x) {
            Value mask = Op::create(b, loc, x[0]);
            auto type = cast<VectorType>(x[0].getType());
            return SmallVector<Value>{arith::ExtUIOp::create(
                b, loc, type.clone(b.getI32Type()), mask)};
          },
          "i32"};
}

TEST_P(SpecialTest, Classes) {
  Function functions[] = {classOf<math::IsNaNOp>("isnan"),
                          classOf<math::IsInfOp>("isinf"),
                          classOf<math::IsFiniteOp>("isfinite"),
                          classOf<math::IsNormalOp>("isnormal")};
  auto kernels = compile(functions, "f32");
  ASSERT_TRUE(kernels);
  Pairs<float> in(1 << 12);
  std::vector<int32_t> out(in.x.size());
  auto test = [&](const char *name, auto reference) {
    kernels->call(name, {in.x.data(), out.data()}, out.size());
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], int(reference(in.x[i]))) << name << " " << in.x[i];
  };
  test("isnan", [](float x) { return std::isnan(x); });
  test("isinf", [](float x) { return std::isinf(x); });
  test("isfinite", [](float x) { return std::isfinite(x); });
  test("isnormal", [](float x) { return std::isnormal(x); });
}

TEST_P(SpecialTest, Philox) {
  Function f{"philox", 6, 4, [](OpBuilder &b, Location loc, ValueRange x) {
               auto words =
                   buildPhilox(b, loc, {x[0], x[1], x[2], x[3]}, {x[4], x[5]});
               return SmallVector<Value>(words.begin(), words.end());
             }};
  auto kernels = compile(f, "i32");
  ASSERT_TRUE(kernels);
  // The known answers that the generator's authors publish.
  const uint32_t in[3][6] = {
      {0, 0, 0, 0, 0, 0},
      {~0u, ~0u, ~0u, ~0u, ~0u, ~0u},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0}};
  const uint32_t want[3][4] = {
      {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (int k = 0; k < 3; ++k) {
    std::vector<uint32_t> words[10];
    std::vector<const void *> buffers;
    for (int i = 0; i < 10; ++i) {
      words[i].assign(16, i < 6 ? in[k][i] : 0);
      buffers.push_back(words[i].data());
    }
    kernels->call("philox", buffers, 16);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(words[6 + i][5], want[k][i]) << k << " " << i;
  }
}

TEST_P(SpecialTest, UniformAndNormal) {
  // A counter's blocks as bits, then both distributions.
  Function f{"random", 1, 3,
             [](OpBuilder &b, Location loc, ValueRange x) {
               Value zero = arith::ConstantOp::create(
                   b, loc, b.getZeroAttr(x[0].getType()));
               auto words =
                   buildPhilox(b, loc, {x[0], zero, zero, zero}, {zero, zero});
               auto [first, second] = buildNormal(b, loc, words[1], words[2]);
               return SmallVector<Value>{buildUniform(b, loc, words[0]), first,
                                         second};
             },
             "f32"};
  auto kernels = compile(f, "i32");
  ASSERT_TRUE(kernels);
  constexpr int kCount = 1 << 18;
  std::vector<int32_t> counter(kCount);
  for (int i = 0; i < kCount; ++i)
    counter[i] = i;
  std::vector<float> u(kCount), a(kCount), c(kCount);
  kernels->call("random", {counter.data(), u.data(), a.data(), c.data()},
                kCount);
  double mean = 0, first = 0, square = 0, fourth = 0, cross = 0;
  for (int i = 0; i < kCount; ++i) {
    ASSERT_GE(u[i], 0);
    ASSERT_LT(u[i], 1);
    ASSERT_TRUE(std::isfinite(a[i]) && std::isfinite(c[i]));
    mean += u[i];
    first += a[i];
    square += double(a[i]) * a[i];
    fourth += std::pow(double(c[i]), 4);
    cross += double(a[i]) * c[i];
  }
  EXPECT_NEAR(mean / kCount, 0.5, 0.003);
  EXPECT_NEAR(first / kCount, 0, 0.01);
  EXPECT_NEAR(square / kCount, 1, 0.015);
  EXPECT_NEAR(fourth / kCount, 3, 0.12);
  EXPECT_NEAR(cross / kCount, 0, 0.01);
}

// The link refuses undefined symbols, so compiling is the test.
TEST_P(SpecialTest, NoLibraryCalls) {
  std::vector<Function> all = functionsOf(unaryFunctions());
  all.push_back(ofOp<math::PowFOp>("pow", 2));
  all.push_back(ofOp<math::Atan2Op>("atan2", 2));
  all.push_back(ofOp<arith::RemFOp>("rem", 2));
  all.push_back(ofOp<math::CopySignOp>("copysign", 2));
  all.push_back(ofOp<math::AbsFOp>("absf"));
  all.push_back(ofOp<math::SincosOp>("sincos", 1, 2));
  struct Shape {
    const char *element;
    unsigned lanes;
  };
  for (auto [element, lanes] :
       {Shape{"f32", 0}, Shape{"f32", 8}, Shape{"f32", 48}, Shape{"f64", 0},
        Shape{"f64", 4}, Shape{"bf16", 0}, Shape{"bf16", 32}, Shape{"f16", 0},
        Shape{"f16", 32}}) {
    SCOPED_TRACE(std::string(element) + " x " + std::to_string(lanes));
    compile(all, element, lanes);
  }
}

TEST_P(SpecialTest, HalfPrecision) {
  // bf16: computed in f32 and rounded once.
  auto kernels = compile(ofOp<math::ExpOp>("exp"), "bf16", 32);
  ASSERT_TRUE(kernels);
  std::vector<uint16_t> x(1 << 16), out(1 << 16);
  for (unsigned i = 0; i < x.size(); ++i)
    x[i] = i;
  kernels->call("exp", {x.data(), out.data()}, x.size());
  for (unsigned i = 0; i < x.size(); ++i) {
    double v = std::bit_cast<float>(i << 16);
    double want = std::exp(v), got = std::bit_cast<float>(out[i] * 65536u);
    if (std::isnan(want) || std::isinf(float(want)) || want < 0x1p-126) {
      EXPECT_EQ(std::isnan(want), std::isnan(got));
      continue;
    }
    if (std::isinf(got)) // The largest floats round up in bf16.
      got = 0x1p128;
    ASSERT_LE(std::fabs(got - want), want * 0x1.02p-8) << v;
  }
}

INSTANTIATE_TEST_SUITE_P(Math, SpecialTest,
                         ::testing::Values("x86-64-v3", "x86-64-v4"),
                         [](const auto &info) {
                           return std::string(info.param.substr(7));
                         });

} // namespace
