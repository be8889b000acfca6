// What the op cases (tests/ops) do not reach: rounding, errors, symbols,
// kernels, bound sizes.
#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

HostTensor floats(ArrayRef<int64_t> dims, std::vector<double> values) {
  return HostTensor::store(DType::f32, dims, values);
}
HostTensor ints(ArrayRef<int64_t> dims, std::vector<int64_t> values,
                DType dtype = DType::i64) {
  return HostTensor::store(dtype, dims, values);
}

struct Evaluate : testing::Test {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  EvaluateContext state;

  Evaluate() { context.loadDialect<TsDialect, func::FuncDialect>(); }
  Expected<SmallVector<HostTensor>> run(StringRef text,
                                        ArrayRef<HostTensor> inputs) {
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return internalError("does not parse");
    state.symbols.clear();
    auto function = *module->getOps<func::FuncOp>().begin();
    return evaluateFunction(function, inputs, state);
  }
  std::string message(StringRef text, ArrayRef<HostTensor> inputs) {
    auto result = run(text, inputs);
    if (result)
      return "no error";
    EXPECT_EQ(result.error().kind, ErrorKind::user);
    return result.error().message();
  }
};

constexpr const char *doubled = R"(
func.func @f(%x: tensor<?x2xf32, #ts.dims<"n", 2>>) -> tensor<?x2xf32, #ts.dims<"n", 2>> {
  %0 = ts.add %x, %x : tensor<?x2xf32, #ts.dims<"n", 2>>
  return %0 : tensor<?x2xf32, #ts.dims<"n", 2>>
})";

TEST_F(Evaluate, BindsSymbolsFromInputs) {
  auto result = run(doubled, {floats({2, 2}, {1, 2, 3, 4})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(2, 4, 6, 8));
  EXPECT_EQ(state.symbols.lookup("n"), 2);
}

TEST_F(Evaluate, RefusesWrongInputs) {
  EXPECT_THAT(message(doubled, {floats({2, 3}, std::vector<double>(6))}),
              HasSubstr("input 0: dim 1 is 3, expected 2"));
  EXPECT_THAT(message(doubled, {ints({2, 2}, {1, 2, 3, 4})}),
              HasSubstr("input 0: is i64[2, 2], expected nx2xf32"));
  EXPECT_THAT(message(doubled, {}), HasSubstr("expected 1 inputs, got 0"));
}

TEST_F(Evaluate, RefusesDisagreeingSizes) {
  const char *text = R"(
func.func @f(%x: tensor<?xf32, #ts.dims<"n">>, %y: tensor<?xf32, #ts.dims<"2*n + 1">>)
    -> tensor<?xf32, #ts.dims<"n">> {
  return %x : tensor<?xf32, #ts.dims<"n">>
})";
  EXPECT_THAT(message(text, {floats({2}, {1, 2}), floats({4}, {1, 2, 3, 4})}),
              HasSubstr("input 1: dim 0 is 4, expected 5 (2*n + 1)"));
  EXPECT_TRUE(run(text, {floats({1}, {1}), floats({3}, {1, 2, 3})}));
}

TEST_F(Evaluate, FindsASymbolInsideAnExpression) {
  const char *text = R"(
func.func @f(%y: tensor<?xf32, #ts.dims<"2*n + 1">>) -> tensor<i64> {
  %0 = ts.size <"n"> : tensor<i64>
  return %0 : tensor<i64>
})";
  auto result = run(text, {floats({7}, std::vector<double>(7))});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<int64_t>(), ElementsAre(3));
  EXPECT_THAT(message(text, {floats({6}, std::vector<double>(6))}),
              HasSubstr("dim 0 is 6"));
}

TEST_F(Evaluate, NumbersMadeOfSizesMayBeNegative) {
  const char *text = R"(
func.func @f(%x: tensor<?xf32, #ts.dims<"s">>, %y: tensor<?xf32, #ts.dims<"t">>) -> tensor<i64> {
  %0 = ts.size <"t - s"> : tensor<i64>
  return %0 : tensor<i64>
})";
  auto result = run(text, {floats({4}, {1, 2, 3, 4}), floats({1}, {1})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<int64_t>(), ElementsAre(-3));
}

// Dims that continue one another are copied as one; others are not.
TEST_F(Evaluate, MovementReadsTheElementsThatItNames) {
  for (auto [type, dtype] :
       {std::pair("i8", DType::i8), std::pair("i16", DType::i16),
        std::pair("i32", DType::i32), std::pair("i64", DType::i64)}) {
    std::string text = R"(
!x = tensor<2x3x4xT>
!t = tensor<4x2x3xT>
!s = tensor<2x2x2xT>
!b = tensor<2x3x1x5x4xT>
!i = tensor<2x3x2xT>
func.func @f(%x: !x) -> (!t, !s, !b, !i) {
  %t = ts.transpose %x [2, 0, 1] : !x
  %s = ts.slice %x [#ts.dim<0>, #ts.dim<2>, #ts.dim<1>] [1, -2, 2] : !x to !s
  %b = ts.broadcast %x [0, 1, 4] : !x to !b
  %i = ts.iota 1 : !i
  return %t, %s, %b, %i : !t, !s, !b, !i
})";
    for (size_t at; (at = text.find("xT>")) != std::string::npos;)
      text.replace(at + 1, 1, type);
    std::vector<int64_t> numbers(24);
    std::iota(numbers.begin(), numbers.end(), 0);
    auto result = run(text, {ints({2, 3, 4}, numbers, dtype)});
    ASSERT_TRUE(result) << result.error().message() << text;
    std::vector<int64_t> transposed, sliced, repeated, counted;
    for (int64_t k = 0; k < 4; ++k)
      for (int64_t i = 0; i < 6; ++i)
        transposed.push_back(4 * i + k);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j : {2, 0})
        for (int64_t k : {1, 3})
          sliced.push_back(12 * i + 4 * j + k);
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 20; ++j)
        repeated.push_back(4 * i + j % 4);
    for (int64_t i = 0; i < 12; ++i)
      counted.push_back(i / 2 % 3);
    EXPECT_EQ((*result)[0].load<int64_t>(), transposed) << type;
    EXPECT_EQ((*result)[1].load<int64_t>(), sliced) << type;
    EXPECT_EQ((*result)[2].load<int64_t>(), repeated) << type;
    EXPECT_EQ((*result)[3].load<int64_t>(), counted) << type;
  }
}

TEST_F(Evaluate, LimitsSizes) {
  const char *text = R"(
func.func @f(%x: tensor<?x?xf32, #ts.dims<"a", "b">>)
    -> tensor<?x?x?xf32, #ts.dims<"a*a*a", "b*b*b", "a*b*9223372036854775807">> {
  %0 = ts.iota 0 : tensor<?x?x?xf32, #ts.dims<"a*a*a", "b*b*b", "a*b*9223372036854775807">>
  return %0 : tensor<?x?x?xf32, #ts.dims<"a*a*a", "b*b*b", "a*b*9223372036854775807">>
})";
  EXPECT_THAT(message(text, {floats({3, 3}, std::vector<double>(9))}),
              HasSubstr("overflows"));
  EXPECT_THAT(message(text, {floats({1, 1}, {1})}), HasSubstr("the limit is"));
}

TEST_F(Evaluate, GatherOutsideIsTheUsersError) {
  const char *text = R"(
func.func @f(%x: tensor<3xf32>, %i: tensor<2xi64>) -> tensor<2xf32> {
  %0 = ts.gather %x, %i dim 0 : tensor<3xf32>, tensor<2xi64> loc("embed")
  return %0 : tensor<2xf32>
})";
  EXPECT_THAT(message(text, {floats({3}, {1, 2, 3}), ints({2}, {0, 3})}),
              HasSubstr("embed: ts.gather: index 3 is outside a dim of 3"));
  auto result = run(text, {floats({3}, {1, 2, 3}), ints({2}, {-1, -3})});
  ASSERT_TRUE(result);
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(3, 1));
}

TEST_F(Evaluate, KernelsRunTheirRegion) {
  const char *text = R"(
func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %0:2 = ts.kernel reduce (%a = %x : tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
    %1 = ts.neg %a : tensor<2xf32>
    %2 = ts.reduce add %1 [0] : tensor<2xf32>
    ts.yield %1, %2 : tensor<2xf32>, tensor<f32>
  }
  return %0#0, %0#1 : tensor<2xf32>, tensor<f32>
})";
  std::vector<std::string> seen;
  state.observe = [&](Operation *op, ArrayRef<HostTensor>,
                      ArrayRef<HostTensor>) {
    seen.push_back(op->getName().getStringRef().str());
  };
  auto result = run(text, {floats({2}, {1, 2})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(-1, -2));
  EXPECT_THAT((*result)[1].load<double>(), ElementsAre(-3));
  EXPECT_THAT(seen, ElementsAre("ts.neg", "ts.reduce", "ts.kernel"));
}

TEST_F(Evaluate, BoundSizesAreChecked) {
  const char *text = R"(
module attributes {ts.symbols = [#ts.symbol<"k", 0, 4, 1>]} {
func.func @f(%n: tensor<i64>) -> tensor<?xi64, #ts.dims<"k">> {
  ts.bind_size %n, "k" : tensor<i64>
  %0 = ts.iota 0 : tensor<?xi64, #ts.dims<"k">>
  return %0 : tensor<?xi64, #ts.dims<"k">>
}})";
  auto result = run(text, {ints({}, {3})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<int64_t>(), ElementsAre(0, 1, 2));
  EXPECT_THAT(message(text, {ints({}, {5})}),
              HasSubstr("size 'k' became 5, allowed are 0 to 4"));
  EXPECT_THAT(message(text, {ints({}, {-1})}), HasSubstr("became -1"));
}

TEST_F(Evaluate, BranchesRunOneBodyAndSetTheSizeOfItsResult) {
  constexpr const char *text = R"(
func.func @f(%c: tensor<i1>, %x: tensor<?xf32, #ts.dims<"n">>) -> tensor<?xf32, #ts.dims<"r">> {
  %0 = ts.if %c : tensor<i1> then @both(%x : tensor<?xf32, #ts.dims<"n">>) else @first(%x : tensor<?xf32, #ts.dims<"n">>) symbols ["r"] to (tensor<?xf32, #ts.dims<"r">>)
  return %0 : tensor<?xf32, #ts.dims<"r">>
}
func.func private @both(%x: tensor<?xf32, #ts.dims<"n">>) -> tensor<?xf32, #ts.dims<"2*n">> {
  %0 = ts.concat %x, %x dim 0 : tensor<?xf32, #ts.dims<"n">>, tensor<?xf32, #ts.dims<"n">>
  return %0 : tensor<?xf32, #ts.dims<"2*n">>
}
func.func private @first(%x: tensor<?xf32, #ts.dims<"n">>) -> tensor<1xf32> {
  ts.check <"n"> ge <2> "needs two"
  %0 = ts.slice %x [#ts.dim<0>] [1] : tensor<?xf32, #ts.dims<"n">> to tensor<1xf32>
  return %0 : tensor<1xf32>
})";
  HostTensor yes = ints({}, {1}, DType::i1), no = ints({}, {0}, DType::i1);
  auto result = run(text, {yes, floats({1}, {3})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(3, 3));
  EXPECT_EQ(state.symbols.lookup("r"), 2);
  result = run(text, {no, floats({2}, {3, 4})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(3));
  EXPECT_THAT(message(text, {no, floats({1}, {3})}), HasSubstr("needs two"));
}

TEST_F(Evaluate, LoopsCarryCollectAndEnd) {
  // v grows by its sum; rows are the iteration's number, until that reaches 2.
  constexpr const char *text = R"(
func.func @f(%c: tensor<i1>, %x: tensor<?xf32, #ts.dims<"n">>) -> (tensor<?xf32, #ts.dims<"k">>, tensor<?xi64, #ts.dims<"t">>) {
  %0:2 = ts.loop @iteration counter "i" trips <5> while %c : tensor<i1> carried(%x : tensor<?xf32, #ts.dims<"n">>) captures() count "t" symbols ["k"] reversed [false] to (tensor<?xf32, #ts.dims<"k">>, tensor<?xi64, #ts.dims<"t">>)
  return %0#0, %0#1 : tensor<?xf32, #ts.dims<"k">>, tensor<?xi64, #ts.dims<"t">>
}
func.func private @iteration(%v: tensor<?xf32, #ts.dims<"k">>) -> (tensor<i1>, tensor<?xf32, #ts.dims<"k + 1">>, tensor<i64>) {
  %i = ts.size <"i"> : tensor<i64>
  %two = ts.constant dense<2> : tensor<i64>
  %go = ts.compare lt %i, %two : tensor<i64>
  %s = ts.reduce add %v [0] : tensor<?xf32, #ts.dims<"k">>
  %r = ts.reshape %s : tensor<f32> to tensor<1xf32>
  %w = ts.concat %v, %r dim 0 : tensor<?xf32, #ts.dims<"k">>, tensor<1xf32>
  return %go, %w, %i : tensor<i1>, tensor<?xf32, #ts.dims<"k + 1">>, tensor<i64>
})";
  auto result = run(text, {ints({}, {1}, DType::i1), floats({2}, {1, 2})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(1, 2, 3, 6, 12));
  EXPECT_THAT((*result)[1].load<int64_t>(), ElementsAre(0, 1, 2));
  result = run(text, {ints({}, {0}, DType::i1), floats({2}, {1, 2})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<double>(), ElementsAre(1, 2));
  EXPECT_EQ((*result)[1].elements(), 0);
}

TEST_F(Evaluate, IntegersWrapAndNeverTrap) {
  const char *text = R"(
func.func @f(%x: tensor<3xi32>, %y: tensor<3xi32>) -> (tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>) {
  %0 = ts.div %x, %y : tensor<3xi32>
  %1 = ts.mod %x, %y : tensor<3xi32>
  %2 = ts.mul %x, %y : tensor<3xi32>
  %3 = ts.abs %x : tensor<3xi32>
  return %0, %1, %2, %3 : tensor<3xi32>, tensor<3xi32>, tensor<3xi32>, tensor<3xi32>
})";
  int64_t low = INT32_MIN;
  auto result = run(text, {ints({3}, {low, 7, -7}, DType::i32),
                           ints({3}, {-1, 0, 4}, DType::i32)});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<int64_t>(), ElementsAre(low, 0, -1));
  EXPECT_THAT((*result)[1].load<int64_t>(), ElementsAre(0, 0, 1));
  EXPECT_THAT((*result)[2].load<int64_t>(), ElementsAre(low, 0, -28));
  EXPECT_THAT((*result)[3].load<int64_t>(), ElementsAre(low, 7, 7));
}

TEST_F(Evaluate, ConversionsSaturateWrapAndTest) {
  const char *text = R"(
func.func @f(%x: tensor<5xf32>, %i: tensor<2xi64>) -> (tensor<5xi8>, tensor<5xi1>, tensor<2xi8>, tensor<2xui8>) {
  %0 = ts.convert %x : tensor<5xf32> to tensor<5xi8>
  %1 = ts.convert %x : tensor<5xf32> to tensor<5xi1>
  %2 = ts.convert %i : tensor<2xi64> to tensor<2xi8>
  %3 = ts.convert %i : tensor<2xi64> to tensor<2xui8>
  return %0, %1, %2, %3 : tensor<5xi8>, tensor<5xi1>, tensor<2xi8>, tensor<2xui8>
})";
  auto result = run(text, {floats({5}, {1e9, -1e9, -1.9, NAN, -0.0}),
                           ints({2}, {511, -128})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT((*result)[0].load<int64_t>(), ElementsAre(127, -128, -1, 0, 0));
  EXPECT_THAT((*result)[1].load<int64_t>(), ElementsAre(1, 1, 1, 1, 0));
  EXPECT_THAT((*result)[2].load<int64_t>(), ElementsAre(-1, -128));
  EXPECT_THAT((*result)[3].load<int64_t>(), ElementsAre(255, 128));
}

TEST(HostTensor, SixteenBitFloatsRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    double f16 = f16ToDouble(bits), bf16 = bf16ToDouble(bits);
    if (!std::isnan(f16)) {
      ASSERT_EQ(doubleToF16(f16), bits);
    }
    if (!std::isnan(bf16)) {
      ASSERT_EQ(doubleToBf16(bf16), bits);
    }
  }
  EXPECT_TRUE(std::isnan(f16ToDouble(doubleToF16(NAN))));
  EXPECT_TRUE(std::isnan(bf16ToDouble(doubleToBf16(-NAN))));
}

TEST(HostTensor, SixteenBitFloatsRoundToNearestEven) {
  // Against the compiler's own _Float16, and bf16 by integer arithmetic on
  // values that a float holds.
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    uint32_t bits = random();
    float x;
    std::memcpy(&x, &bits, 4);
    if (std::isnan(x))
      continue;
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    ASSERT_EQ(doubleToBf16(x), static_cast<uint16_t>(rounded)) << x;
    // Exponents near those of f16.
    float y = std::ldexp(static_cast<float>(static_cast<int32_t>(bits)),
                         -31 + static_cast<int>(random() % 44) - 26);
    auto half = static_cast<_Float16>(y);
    uint16_t expected;
    std::memcpy(&expected, &half, 2);
    ASSERT_EQ(doubleToF16(y), expected) << y;
  }
  // A double just above the middle of two floats is rounded once, not twice.
  EXPECT_EQ(doubleToBf16(1.00390625 + 1e-12), 0x3f81);
  EXPECT_EQ(doubleToBf16(1.00390625), 0x3f80);
  EXPECT_EQ(doubleToF16(65519.9), 0x7bff);
  EXPECT_EQ(doubleToF16(65520), 0x7c00);
}

TEST(HostTensor, AttributesRoundTrip) {
  MLIRContext context;
  for (DType dtype : {DType::i1, DType::u8, DType::bf16, DType::i64}) {
    for (int64_t count : {0, 1, 9}) {
      std::vector<int64_t> values;
      for (int64_t i = 0; i < count; ++i)
        values.push_back(i % 2);
      HostTensor tensor = HostTensor::store(dtype, {count}, values);
      DenseElementsAttr attribute = tensor.toAttribute(&context);
      auto back = HostTensor::fromAttribute(attribute);
      ASSERT_TRUE(back);
      EXPECT_EQ(back->load<int64_t>(), values);
    }
  }
  // A splat keeps one element only.
  auto splat = HostTensor::store<int64_t>(DType::i1, {4}, {1, 1, 1, 1});
  EXPECT_TRUE(splat.toAttribute(&context).isSplat());
  EXPECT_EQ(
      HostTensor::fromAttribute(splat.toAttribute(&context))->load<int64_t>(),
      std::vector<int64_t>(4, 1));
}

TEST(HostTensor, CountsElements) {
  EXPECT_EQ(elementCountOf({}), 1);
  EXPECT_EQ(elementCountOf({3, 0, 5}), 0);
  EXPECT_EQ(elementCountOf({-1}), std::nullopt);
  EXPECT_EQ(elementCountOf({int64_t(1) << 40, int64_t(1) << 40}), std::nullopt);
  EXPECT_EQ(elementCountOf({int64_t(1) << 40, int64_t(1) << 40, 0}),
            std::nullopt);
}

} // namespace
