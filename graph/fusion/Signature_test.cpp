// When kernels are one piece of code, and what their symbols stand for.
#include "graph/fusion/Signature.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

struct Signature : testing::Test {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Signature() { context.loadDialect<TsDialect, func::FuncDialect>(); }

  /// Canonical forms of the kernels of a function with arguments %x and %w.
  SmallVector<CanonicalKernel> kernels(StringRef type, StringRef body) {
    std::string text = ("!t = " + type +
                        "\n"
                        "func.func @f(%x: !t, %y: !t) -> (!t, !t) {\n" +
                        body + "}")
                           .str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    SmallVector<CanonicalKernel> found;
    module->walk(
        [&](KernelOp kernel) { found.push_back(canonicalKernel(kernel)); });
    return found;
  }
};

constexpr const char *twoSums = R"(
  %0 = ts.kernel pointwise (%a = %x : !t, %b = %y : !t) -> !t {
    %1 = ts.add %a, %b : !t loc("one")
    ts.yield %1 : !t
  }
  %2 = ts.kernel pointwise (%p = %0 : !t, %q = %x : !t) attributes {signature = "old"} -> !t {
    %3 = ts.add %p, %q : !t loc("two")
    ts.yield %3 : !t
  }
  return %0, %2 : !t, !t
)";

TEST_F(Signature, NamesAndLocationsAreForgotten) {
  auto here =
      kernels(R"(tensor<?x?x8xf32, #ts.dims<"batch", "seq", 8>>)", twoSums);
  auto there =
      kernels(R"(tensor<?x?x8xf32, #ts.dims<"rows", "n", 8>>)", twoSums);
  ASSERT_EQ(here.size(), 2u);
  EXPECT_EQ(here[0].signature, here[1].signature);
  EXPECT_EQ(here[0].text, here[1].text);
  EXPECT_EQ(here[0].signature, there[0].signature);
  EXPECT_EQ(here[0].signature.size(), 16u);
  ASSERT_EQ(there[0].symbols.size(), 2u);
  EXPECT_EQ(there[0].symbols[0].str(), "rows");
  EXPECT_EQ(there[0].symbols[1].str(), "n");
}

TEST_F(Signature, ShapesAndOpsCount) {
  auto base = kernels(R"(tensor<?x?xf32, #ts.dims<"a", "b">>)", twoSums);
  auto square = kernels(R"(tensor<?x?xf32, #ts.dims<"a", "a">>)", twoSums);
  auto half = kernels(R"(tensor<?x?xf16, #ts.dims<"a", "b">>)", twoSums);
  auto other = kernels(R"(tensor<?x?xf32, #ts.dims<"a", "b">>)", R"(
    %0 = ts.kernel pointwise (%a = %x : !t, %b = %y : !t) -> !t {
      %1 = ts.sub %a, %b : !t
      ts.yield %1 : !t
    }
    return %0, %0 : !t, !t
  )");
  EXPECT_NE(base[0].signature, square[0].signature);
  EXPECT_NE(base[0].signature, half[0].signature);
  EXPECT_NE(base[0].signature, other[0].signature);
}

TEST_F(Signature, SizesInAttributesAreSymbolsToo) {
  auto found = kernels(R"(tensor<?xf32, #ts.dims<"n">>)", R"(
    %0 = ts.kernel pointwise (%a = %x : !t) -> !t {
      %1 = ts.slice %a [#ts.dim<"n - k">] [-1] : !t to !t
      ts.yield %1 : !t
    }
    return %0, %0 : !t, !t
  )");
  ASSERT_EQ(found[0].symbols.size(), 2u);
  EXPECT_EQ(found[0].symbols[0].str(), "n");
  EXPECT_EQ(found[0].symbols[1].str(), "k");
  EXPECT_NE(found[0].text.find("-k1 + k0"), std::string::npos) << found[0].text;
}

TEST_F(Signature, TextIsAModuleInAnyContext) {
  auto found = kernels(R"(tensor<?x8xf32, #ts.dims<"n", 8>>)", twoSums);
  MLIRContext other;
  other.loadDialect<TsDialect, func::FuncDialect>();
  OwningOpRef<Operation *> parsed = parseCanonicalKernel(found[0].text, &other);
  ASSERT_TRUE(parsed);
  unsigned count = 0;
  parsed->walk([&](KernelOp kernel) {
    ++count;
    EXPECT_EQ(canonicalKernel(kernel).text, found[0].text);
  });
  EXPECT_EQ(count, 1u);
}

} // namespace
