// The arithmetic of sizes: against integers, on random expressions.
#include "ir/tensor/Dialect.h"
#include "ir/tensor/Dim.h"
#include "ir/tensor/Multiples.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace knapper::ts;

namespace {

struct DimTest : testing::Test {
  MLIRContext context;
  DimTest() { context.loadDialect<TsDialect>(); }
  Dim num(int64_t value) { return Dim::constant(&context, value); }
  Dim sym(const char *name) { return Dim::symbol(&context, name); }
};

TEST_F(DimTest, HasOneForm) {
  Dim s = sym("s"), t = sym("t"), b = sym("b");
  EXPECT_EQ(s + t - t, s);
  EXPECT_EQ((b + 1) * s * 2, b * s * 2 + s * 2);
  EXPECT_EQ(s * t, t * s);
  EXPECT_EQ((s + t) * (s - t), s * s - t * t);
  EXPECT_EQ(s - s, num(0));
  EXPECT_TRUE((s * 0).isConstant(0));
  EXPECT_EQ(s.min(t), t.min(s));
  EXPECT_EQ((s + 3).max(s), s + 3);
  EXPECT_EQ(s.min(s + 3), s);
  EXPECT_NE(s, t);
}

TEST_F(DimTest, DividesWhereItIsSure) {
  Dim s = sym("s"), b = sym("b");
  EXPECT_EQ(*(b * s * 384).exactDiv(b * s), num(384));
  EXPECT_EQ(*(b * s * 6 + s * 4).exactDiv(s * 2), b * 3 + 2);
  EXPECT_EQ(*((b + 1) * (s + 2)).exactDiv(s + 2), b + 1);
  EXPECT_FALSE((s * 3).exactDiv(num(2)));
  EXPECT_FALSE(s.exactDiv(num(0)));
  EXPECT_FALSE((s + 1).exactDiv(s));
  EXPECT_EQ((s * 4 + 2).floorDiv(num(4)), s);
  EXPECT_EQ((s * 4 - 2).floorDiv(num(4)), s - 1);
  EXPECT_EQ((s * 4 + 6).mod(num(4)), num(2));
  EXPECT_EQ((s * 4).ceilDiv(num(4)), s);
  EXPECT_EQ((s + 7).floorDiv(num(8)).str(), "floordiv(s + 7, 8)");
  EXPECT_EQ((s * 6 + b * 4).knownDivisor(), 2);
  EXPECT_EQ(num(0).knownDivisor(), 0);
}

TEST_F(DimTest, MultiplesHaveOneForm) {
  Dim s = sym("s"), b = sym("b");
  Dim up = (s + 3).floorDiv(num(4)) * 4, down = s.floorDiv(num(4)) * 4;
  auto form = [](Dim dim) { return multiplesAsProducts(dim); };
  EXPECT_EQ(form(s + (num(4) - s.mod(num(4))).mod(num(4))), up);
  EXPECT_EQ(form(s + (s * -1).mod(num(4))), up);
  EXPECT_EQ(form(s - s.mod(num(4))), down);
  EXPECT_EQ(form((s * 3).mod(num(4)) - b + b + s), up);
  // The windows of an image that was padded to whole ones.
  Dim padded = form(s + (s * -1).mod(num(4)));
  EXPECT_EQ(*(b * padded).exactDiv((s + 3).floorDiv(num(4))), b * 4);
  EXPECT_EQ((s.mod(num(6)) * 2 + 1).mod(num(4)), (s * 2 + 1).mod(num(4)));
  EXPECT_NE((s.mod(num(6)) * 2).mod(num(5)), (s * 2).mod(num(5)));
  // What two slices at one place are together.
  Dim first = s.min(num(2));
  EXPECT_EQ((s - first).max(num(0)) + first, s);
  EXPECT_EQ((s - s.min(b) + 1).max(num(1)), s - s.min(b) + 1);
  EXPECT_EQ((s - first).min(num(0)), num(0));
  // Not a multiple of it.
  EXPECT_EQ(form(s + s.mod(num(4))), s + s.mod(num(4)));
}

TEST_F(DimTest, EvaluatesWithoutOverflow) {
  Dim s = sym("s");
  auto at = [&](Dim dim, int64_t value) {
    return dim.evaluate([&](StringRef) { return std::optional(value); });
  };
  EXPECT_EQ(at(s * s * s, int64_t(1) << 21), std::nullopt);
  EXPECT_EQ(at(s * s * s, 1 << 20), int64_t(1) << 60);
  EXPECT_EQ(at(s + INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(at((s + 1).floorDiv(s), 0), std::nullopt);
  EXPECT_EQ(at((s - 5).floorDiv(num(2)), 0), -3);
  EXPECT_EQ(at((s - 5).mod(num(2)), 0), 1);
  EXPECT_EQ(s.evaluate([](StringRef) -> std::optional<int64_t> { return {}; }),
            std::nullopt);
}

TEST_F(DimTest, NamesNeedNotBeIdentifiers) {
  for (const char *name : {"a b", "x`y", "3", "min", "a.b", "é", "-", ""}) {
    Dim dim = sym(name) * 2 + 1;
    std::optional<Dim> back = parseDim(&context, dim.str());
    ASSERT_TRUE(back) << dim.str();
    EXPECT_EQ(*back, dim) << dim.str();
    EXPECT_EQ(*sym(name).asSymbol(), name);
  }
}

TEST_F(DimTest, RefusesBadText) {
  for (const char *text :
       {"", "+", "s +", "2 s", "(s", "s)", "floordiv(s)", "floordiv(s, 2",
        "99999999999999999999", "`s", "s,", "s**t", "min(s, )"})
    EXPECT_FALSE(parseDim(&context, text)) << text;
  EXPECT_FALSE(parseDim(&context, std::string(100000, '(')));
  EXPECT_FALSE(parseDim(&context, std::string(100000, '-') + "s"));
}

/// A random expression, built as a Dim and computed as a number side by side.
struct Random {
  DimTest &test;
  std::mt19937 random;
  int64_t values[3];
  const char *names[3] = {"batch", "seq", "k"};

  std::pair<Dim, std::optional<int64_t>> make(int depth) {
    if (depth == 0 || random() % 4 == 0) {
      if (random() % 2) {
        int64_t value = static_cast<int64_t>(random() % 9) - 3;
        return {test.num(value), value};
      }
      size_t i = random() % 3;
      return {test.sym(names[i]), values[i]};
    }
    auto [a, x] = make(depth - 1);
    auto [b, y] = make(depth - 1);
    bool known = x && y;
    auto give = [&](Dim dim, auto value) {
      return std::pair(dim,
                       known ? std::optional<int64_t>(value()) : std::nullopt);
    };
    switch (random() % 8) {
    case 0:
    case 1:
      return give(a + b, [&] { return *x + *y; });
    case 2:
      return give(a - b, [&] { return *x - *y; });
    case 3:
      return give(a * b, [&] { return *x * *y; });
    case 4:
      return give(a.min(b), [&] { return std::min(*x, *y); });
    case 5:
      return give(a.max(b), [&] { return std::max(*x, *y); });
    default: {
      int64_t divisor = 1 + random() % 8;
      Dim d = test.num(divisor);
      int64_t n = x.value_or(0);
      int64_t q = n >= 0 ? n / divisor : -((-n + divisor - 1) / divisor);
      switch (random() % 3) {
      case 0:
        return {a.floorDiv(d), x ? std::optional(q) : std::nullopt};
      case 1:
        return {a.mod(d), x ? std::optional(n - q * divisor) : std::nullopt};
      default:
        return {a.ceilDiv(d),
                x ? std::optional(q + (n != q * divisor)) : std::nullopt};
      }
    }
    }
  }
};

TEST_F(DimTest, AgreesWithIntegers) {
  for (int round = 0; round < 800; ++round) {
    Random make{*this, std::mt19937(round), {}};
    for (int64_t &value : make.values)
      value = make.random() % 12;
    auto [dim, expected] = make.make(4);
    auto lookup = [&](StringRef name) -> std::optional<int64_t> {
      for (int i = 0; i < 3; ++i)
        if (name == make.names[i])
          return make.values[i];
      return {};
    };
    ASSERT_EQ(dim.evaluate(lookup), expected) << dim.str();
    ASSERT_EQ(multiplesAsProducts(dim).evaluate(lookup), expected) << dim.str();
    // What is printed is parsed to the same attribute.
    std::optional<Dim> back = parseDim(&context, dim.str());
    ASSERT_TRUE(back) << dim.str();
    ASSERT_EQ(*back, dim) << dim.str();
    // Substituting numbers gives the number; and substitution by itself
    // changes nothing.
    Dim number =
        dim.substitute([&](StringRef name) { return num(*lookup(name)); });
    ASSERT_TRUE(number.isConstant(*expected)) << dim.str();
    ASSERT_EQ(dim.substitute([](StringRef) { return Dim(); }), dim);
    // Sums and differences cancel whatever is inside.
    auto [other, ignored] = make.make(3);
    ASSERT_EQ(dim + other - other, dim) << dim.str() << " and " << other.str();
    ASSERT_EQ(dim * other, other * dim);
    if (!other.isConstant(0)) {
      if (std::optional<Dim> quotient = dim.exactDiv(other))
        ASSERT_EQ(*quotient * other, dim);
      ASSERT_EQ(*(dim * other).exactDiv(other), dim)
          << dim.str() << " times " << other.str();
    }
  }
}

TEST_F(DimTest, OrderDoesNotDependOnPointers) {
  // The same expression made in another order, in another context.
  MLIRContext second;
  second.loadDialect<TsDialect>();
  Dim z = Dim::symbol(&second, "z"), a = Dim::symbol(&second, "a");
  Dim here = sym("a") * sym("z") + sym("z").floorDiv(num(3)) + sym("a") + 7;
  Dim there = a + 7 + z.floorDiv(Dim::constant(&second, 3)) + z * a;
  EXPECT_EQ(here.str(), there.str());
}

} // namespace
