// Which kernels may write over an operand.
#include "graph/memory/InPlace.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::memory;

namespace {

struct InPlace : testing::Test {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  InPlace() { context.loadDialect<ts::TsDialect, func::FuncDialect>(); }

  /// A function of %x whose body is given, and the numbers of the kernels that
  /// write in place.
  std::vector<unsigned> kernels(StringRef body) {
    std::string text = ("!t = tensor<4x8xf32>\n!u = tensor<32xf32>\n"
                        "func.func @f(%x: !t, %y: !t) -> !t {\n" +
                        body + "}")
                           .str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    auto function = *module->getOps<func::FuncOp>().begin();
    auto taken = inPlace(function, Liveness(function));
    std::vector<unsigned> found;
    for (auto [i, kernel] :
         llvm::enumerate(function.getBody().front().getOps<ts::KernelOp>()))
      if (taken.contains(kernel.getResult(0)))
        found.push_back(i);
    return found;
  }
};

using Numbers = std::vector<unsigned>;

// %name = negation of %from
#define NEG(name, from)                                                        \
  "%" name " = ts.kernel pointwise (%a = %" from " : !t) -> !t {\n"            \
  "  %0 = ts.neg %a : !t\n  ts.yield %0 : !t\n}\n"
// %name = %from * its own transposition of reshapes: another index
#define SUM(name, from, other)                                                 \
  "%" name " = ts.kernel pointwise (%a = %" from " : !t, %b = %" other         \
  " : !t) -> !t {\n"                                                           \
  "  %0 = ts.add %a, %b : !t\n  ts.yield %0 : !t\n}\n"

TEST_F(InPlace, ChainTakesDyingOperand) {
  // The first reads an input of the function, the last writes an output.
  EXPECT_EQ(kernels(NEG("p", "x") NEG("q", "p") NEG("r", "q")
                        NEG("s", "r") "return %s : !t\n"),
            Numbers({1, 2}));
}

TEST_F(InPlace, OperandNeededLaterStays) {
  EXPECT_EQ(kernels(NEG("p", "x") NEG("q", "p") SUM("r", "q", "p")
                        NEG("s", "r") "return %s : !t\n"),
            Numbers({2}));
}

TEST_F(InPlace, OperandNeededThroughViewStays) {
  EXPECT_EQ(
      kernels(NEG("p", "x") NEG(
          "q", "p") "%v = ts.reshape %p : !t to !u\n"
                    "%r = ts.kernel pointwise (%a = %v : !u, %b = %q : "
                    "!t) -> !t {\n"
                    "  %0 = ts.reshape %a : !u to !t\n"
                    "  %1 = ts.add %0, %b : !t\n"
                    "  ts.yield %1 : !t\n}\n" NEG("s", "r") "return %s : !t\n"),
      Numbers({2}));
}

TEST_F(InPlace, AnotherIndexIsNoPlace) {
  EXPECT_EQ(
      kernels(NEG("p", "x") "%r = ts.kernel pointwise (%a = %p : !t) -> !t {\n"
                            "  %0 = ts.slice %a [#ts.dim<3>, #ts.dim<0>] [-1, "
                            "1] : !t to !t\n"
                            "  %1 = ts.add %0, %a : !t\n"
                            "  ts.yield %1 : !t\n}\n" NEG(
                                "s", "r") "return %s : !t\n"),
      Numbers({}));
}

TEST_F(InPlace, SharedMemoryIsNoPlace) {
  // %v and %p are one memory, read at two indices.
  EXPECT_EQ(
      kernels(NEG("p", "x") "%v = ts.reshape %p : !t to !u\n"
                            "%r = ts.kernel pointwise (%a = %p : !t, %b = %v : "
                            "!u) -> !t {\n"
                            "  %0 = ts.slice %b [#ts.dim<31>] [-1] : !u to !u\n"
                            "  %1 = ts.reshape %0 : !u to !t\n"
                            "  %2 = ts.add %1, %a : !t\n"
                            "  ts.yield %2 : !t\n}\n" NEG(
                                "s", "r") "return %s : !t\n"),
      Numbers({}));
}

// %name = %from with updates that lie in %with
#define UPDATE(name, from, with)                                               \
  "%" name " = ts.kernel scatter (%a = %" from                                 \
  " : !t, %i = %at : tensor<1x8xi64>, %u = %" with " : !t) -> !t {\n"          \
  "  %0 = ts.slice %u [#ts.dim<0>, #ts.dim<0>] [1, 1] : !t to "                \
  "tensor<1x8xf32>\n"                                                          \
  "  %1 = ts.scatter_elements %a, %i, %0 dim 0 : !t, tensor<1x8xi64>, "        \
  "tensor<1x8xf32>\n  ts.yield %1 : !t\n}\n"
#define AT                                                                     \
  "%at = ts.kernel pointwise () -> tensor<1x8xi64> {\n"                        \
  "  %0 = ts.iota 0 : tensor<1x8xi64>\n  ts.yield %0 : tensor<1x8xi64>\n}\n"

TEST_F(InPlace, UpdatesTakeWhatTheyUpdate) {
  EXPECT_EQ(kernels(AT NEG("p", "x") UPDATE("q", "p", "y") UPDATE("r", "q", "y")
                        NEG("s", "r") "return %s : !t\n"),
            Numbers({2, 3}));
}

TEST_F(InPlace, WhatIsReadAfterTheUpdateStays) {
  EXPECT_EQ(kernels(AT NEG("p", "x") UPDATE("q", "p", "y") SUM("r", "q", "p")
                        NEG("s", "r") "return %s : !t\n"),
            Numbers({3}));
}

TEST_F(InPlace, UpdatesThatLieInWhatTheyUpdateStay) {
  EXPECT_EQ(kernels(AT NEG("p", "x") UPDATE("q", "p", "p")
                        NEG("s", "q") "return %s : !t\n"),
            Numbers({}));
}

TEST_F(InPlace, ReturnedMemoryIsNoPlace) {
  EXPECT_EQ(kernels(NEG("p", "x") NEG("q", "p") "return %q : !t\n"),
            Numbers({}));
}

} // namespace
