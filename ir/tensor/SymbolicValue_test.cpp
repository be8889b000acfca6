#include "ir/tensor/SymbolicValue.h"
#include "ir/tensor/Dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace knapper::ts;

namespace {

struct SymbolicValueTest : testing::Test {
  SymbolicValueTest() {
    context.loadDialect<func::FuncDialect, TsDialect>();
  }

  /// The symbolic value of what the body returns: "[batch, 12]" or "none".
  std::string valueOf(StringRef body, StringRef type) {
    std::string text = ("func.func @f(%x: tensor<2xi64>) -> " + type + " {\n" +
                        body + "\nreturn %r : " + type + "\n}")
                           .str();
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return "does not parse";
    Value result;
    module->walk([&](func::ReturnOp op) { result = op.getOperand(0); });
    SymbolicValueCache cache;
    std::optional<SmallVector<Dim>> value = symbolicValue(result, cache);
    if (!value)
      return "none";
    std::string out = "[";
    llvm::interleave(
        *value, [&](Dim dim) { out += dim.str(); }, [&] { out += ", "; });
    return out + "]";
  }

  Dim dim(StringRef text) { return *parseDim(&context, text); }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

constexpr StringRef sizes = R"(
  %b = ts.size <"batch"> : tensor<i64>
  %b1 = ts.reshape %b : tensor<i64> to tensor<1xi64>
  %c = ts.constant dense<[12, 64]> : tensor<2xi64>
)";

TEST_F(SymbolicValueTest, ConcatOfSizesAndNumbers) {
  EXPECT_EQ(valueOf((sizes + "%r = ts.concat %b1, %c dim 0 : tensor<1xi64>, "
                             "tensor<2xi64>").str(),
                    "tensor<3xi64>"),
            "[batch, 12, 64]");
}

TEST_F(SymbolicValueTest, ArithmeticAndProduct) {
  EXPECT_EQ(valueOf((sizes + "%bb = ts.broadcast %b1 [0] : tensor<1xi64> to "
                             "tensor<2xi64>\n"
                             "%p = ts.mul %bb, %c : tensor<2xi64>\n"
                             "%r = ts.reduce mul %p [0] : tensor<2xi64>").str(),
                    "tensor<i64>"),
            "[768*batch*batch]");
}

TEST_F(SymbolicValueTest, NegativeIndicesCountFromTheEnd) {
  EXPECT_EQ(valueOf((sizes + "%i = ts.constant dense<-1> : tensor<i64>\n"
                             "%r = ts.gather %c, %i dim 0 : tensor<2xi64>, "
                             "tensor<i64>").str(),
                    "tensor<i64>"),
            "[64]");
}

TEST_F(SymbolicValueTest, ChoosesBySizes) {
  // A size is never -1; whether it is 1 a run knows.
  StringRef select = "%k = ts.compare eq %b, %m : tensor<i64>\n"
                     "%r = ts.select %k, %m, %b : tensor<i1>, tensor<i64>";
  EXPECT_EQ(valueOf((sizes + "%m = ts.constant dense<-1> : tensor<i64>\n" +
                     select).str(), "tensor<i64>"),
            "[batch]");
  std::string chosen =
      valueOf((sizes + "%m = ts.constant dense<3> : tensor<i64>\n"
                       "%n = ts.constant dense<7> : tensor<i64>\n"
                       "%k = ts.compare le %b, %m : tensor<i64>\n"
                       "%r = ts.select %k, %n, %b : tensor<i1>, tensor<i64>")
                  .str(),
              "tensor<i64>");
  Dim dim = *parseDim(&context, StringRef(chosen).drop_front().drop_back());
  for (int64_t batch : {0, 1, 3, 4, 9})
    EXPECT_EQ(dim.evaluate([&](StringRef) { return batch; }),
              batch <= 3 ? 7 : batch);
}

TEST_F(SymbolicValueTest, DivisionTruncates) {
  for (int64_t offset : {-7, -3, -1, 0, 1, 5})
    for (int64_t divisor : {-3, 1, 2, 5}) {
      std::string text =
          valueOf((sizes + "%two = ts.constant dense<" + Twine(divisor) +
                   "> : tensor<i64>\n%o = ts.constant dense<" + Twine(offset) +
                   "> : tensor<i64>\n%v = ts.add %b, %o : tensor<i64>\n"
                   "%r = ts.div %v, %two : tensor<i64>")
                      .str(),
                  "tensor<i64>");
      std::optional<Dim> dim =
          parseDim(&context, StringRef(text).drop_front().drop_back());
      ASSERT_TRUE(dim) << text;
      for (int64_t batch = 0; batch < 12; ++batch)
        EXPECT_EQ(dim->evaluate([&](StringRef) { return batch; }),
                  (batch + offset) / divisor)
            << text << " of " << batch;
    }
}

TEST_F(SymbolicValueTest, FloatsThatAreRounded) {
  StringRef halved = "%f = ts.convert %b : tensor<i64> to tensor<f32>\n"
                     "%h = ts.constant dense<5.000000e-01> : tensor<f32>\n"
                     "%v = ts.mul %f, %h : tensor<f32>\n";
  StringRef back = "%r = ts.convert %w : tensor<f32> to tensor<i64>";
  EXPECT_EQ(
      valueOf(
          (sizes + halved + "%w = ts.floor %v : tensor<f32>\n" + back).str(),
          "tensor<i64>"),
      "[floordiv(batch, 2)]");
  EXPECT_EQ(
      valueOf((sizes + halved + "%w = ts.ceil %v : tensor<f32>\n" + back).str(),
              "tensor<i64>"),
      "[floordiv(batch + 1, 2)]");
  // 0.3 is no quotient of small numbers.
  EXPECT_EQ(valueOf((sizes +
                     "%f = ts.convert %b : tensor<i64> to tensor<f32>\n"
                     "%h = ts.constant dense<3.000000e-01> : tensor<f32>\n"
                     "%w = ts.mul %f, %h : tensor<f32>\n" +
                     back)
                        .str(),
                    "tensor<i64>"),
            "none");
}

TEST_F(SymbolicValueTest, OneHotRows) {
  // As exporters write repeats: ones, and a size at one place.
  constexpr StringRef rows = R"(
  %at = ts.constant dense<[1, 0]> : tensor<2xi64>
  %wide = ts.broadcast %at [0] : tensor<2xi64> to tensor<2x3xi64>
  %on = ts.broadcast %b [] : tensor<i64> to tensor<2x3xi64>
  %off = ts.constant dense<1> : tensor<2x3xi64>
)";
  constexpr StringRef chosen = R"(
  %hit = ts.compare eq %i, %wide : tensor<2x3xi64>
  %m = ts.select %hit, %on, %off : tensor<2x3xi1>, tensor<2x3xi64>
  %r = ts.reshape %m : tensor<2x3xi64> to tensor<6xi64>
)";
  EXPECT_EQ(
      valueOf(
          (sizes + rows + "%i = ts.iota 1 : tensor<2x3xi64>" + chosen).str(),
          "tensor<6xi64>"),
      "[1, batch, 1, batch, 1, 1]");
  EXPECT_EQ(
      valueOf(
          (sizes + rows + "%i = ts.iota 0 : tensor<2x3xi64>" + chosen).str(),
          "tensor<6xi64>"),
      "[1, 1, 1, 1, 1, 1]");
  // Rows of one element repeat along columns.
  EXPECT_EQ(valueOf((sizes + "%t = ts.reshape %c : tensor<2xi64> to "
                             "tensor<2x1xi64>\n"
                             "%w = ts.broadcast %t [0, 1] : tensor<2x1xi64> to "
                             "tensor<2x2xi64>\n"
                             "%n = ts.neg %w : tensor<2x2xi64>\n"
                             "%r = ts.reshape %n : tensor<2x2xi64> to "
                             "tensor<4xi64>")
                        .str(),
                    "tensor<4xi64>"),
            "[-12, -12, -64, -64]");
}

TEST_F(SymbolicValueTest, DataIsNoSize) {
  EXPECT_EQ(valueOf("%r = ts.neg %x : tensor<2xi64>", "tensor<2xi64>"), "none");
}

TEST_F(SymbolicValueTest, Bounds) {
  EXPECT_EQ(lowerBound(dim("2*a + 3")), 3);
  EXPECT_EQ(upperBound(dim("2*a + 3")), std::nullopt);
  EXPECT_EQ(lowerBound(dim("a - b")), std::nullopt);
  EXPECT_EQ(upperBound(dim("min(512, a)")), 512);
  EXPECT_EQ(lowerBound(dim("max(7, a)")), 7);
  EXPECT_EQ(upperBound(dim("mod(a, 4)")), 3);
  EXPECT_EQ(isLess(dim("a"), dim("a + 1")), true);
  EXPECT_EQ(isEqual(dim("a"), dim("b")), std::nullopt);
  EXPECT_EQ(isEqual(dim("a + 1"), dim("a")), false);
}

TEST_F(SymbolicValueTest, BoundsOfWhatCancels) {
  // What rounding up to a multiple adds.
  EXPECT_EQ(lowerBound(dim("4*floordiv(a + 3, 4) - a")), 0);
  EXPECT_EQ(upperBound(dim("4*floordiv(a + 3, 4) - a")), 3);
  EXPECT_EQ(lowerBound(dim("a - 4*floordiv(a, 4)")), 0);
  EXPECT_EQ(upperBound(dim("a - 4*floordiv(a, 4)")), 3);
  EXPECT_EQ(lowerBound(dim("a - 3*floordiv(a, 4)")), std::nullopt);
  EXPECT_EQ(lowerBound(dim("8*floordiv(max(a, 8) + 7, 8) - max(a, 8)")), 0);
  EXPECT_EQ(lowerBound(dim("max(a, 3) - a")), 0);
  EXPECT_EQ(upperBound(dim("max(a, 3) - a")), 3);
  EXPECT_EQ(upperBound(dim("min(a, b) - a")), 0);
  EXPECT_EQ(lowerBound(dim("min(a, b) - a")), std::nullopt);
  EXPECT_EQ(lowerBound(dim("a - min(a, b)")), 0);
  EXPECT_EQ(lowerBound(dim("max(a + 5, b + 2) - max(a, b)")), 2);
  EXPECT_EQ(upperBound(dim("max(a + 5, b + 2) - max(a, b)")), 5);
}

} // namespace
