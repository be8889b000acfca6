// Every composite against its decomposition, both evaluated by the reference.
#include "ir/tensor/Decompose.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

namespace {

struct Decomposes
    : testing::TestWithParam<std::pair<const char *, const char *>> {};

/// Evaluates `function` for sizes a=3 b=20 s=4 t=6 and reproducible inputs.
std::vector<double> run(func::FuncOp function) {
  EvaluateContext state;
  state.symbols = {{"a", 3}, {"b", 20}, {"s", 4}, {"t", 6}};
  std::vector<HostTensor> inputs;
  std::mt19937 random(1);
  for (Type type : function.getArgumentTypes()) {
    auto shape = evaluateShape(type, state.symbols, 1 << 30);
    DType dtype = *dtypeOf(cast<RankedTensorType>(type).getElementType());
    std::vector<double> values(*elementCountOf(*shape));
    for (double &value : values)
      value = dtype == DType::i1    ? random() % 2
              : dtype == DType::i32 ? double(random() % 24) - 2
                                    : (random() % 2000) / 500.0 - 2;
    inputs.push_back(HostTensor::store(dtype, *shape, values));
  }
  auto results = evaluateFunction(function, inputs, state);
  EXPECT_TRUE(results) << (results ? "" : results.error().message());
  return results ? (*results)[0].load<double>() : std::vector<double>();
}

TEST_P(Decomposes, ToTheSameValues) {
  auto [arguments, op] = GetParam();
  MLIRContext context;
  context.loadDialect<TsDialect, func::FuncDialect>();
  StringRef result = StringRef(arguments);
  result = result.drop_front(result.find("tensor"));
  // The result has the type of the first argument.
  int depth = 0;
  size_t end = 0;
  for (; end < result.size(); ++end) {
    depth += result[end] == '<';
    depth -= result[end] == '>';
    if (depth == 0 && (result[end] == ',' || result[end] == ')'))
      break;
  }
  std::string type = result.take_front(end).str();
  std::string text = std::string("func.func @f(") + arguments + ") -> " + type +
                     " {\n%r = ts." + op + "\nreturn %r : " + type + "\n}";
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module) << text;
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  std::vector<double> whole = run(function);
  StringRef name = function.getBody().front().front().getName().getStringRef();
  decomposeAll(function.getBody(), [](Operation *) { return true; });
  EXPECT_TRUE(succeeded(verify(*module)));
  for (Operation &left : function.getBody().front())
    EXPECT_NE(left.getName().getStringRef(), name);
  std::vector<double> parts = run(function);
  ASSERT_EQ(whole.size(), parts.size());
  // 16-bit types round in between.
  double bound = type.find("xf32") != std::string::npos   ? 2e-6
                 : type.find("xf64") != std::string::npos ? 1e-13
                 : type.find("xf16") != std::string::npos ? 4e-3
                                                          : 3e-2;
  double scale = 0;
  for (double value : whole)
    scale = std::max(scale, std::fabs(value));
  ASSERT_GT(scale, 0);
  for (size_t i = 0; i < whole.size(); ++i)
    ASSERT_NEAR(whole[i], parts[i], bound * scale) << i;
}

#define X R"(%x: tensor<?x?xf32, #ts.dims<"a", "b">>)"
#define X16 R"(%x: tensor<?x?xbf16, #ts.dims<"a", "b">>)"
#define TX R"( : tensor<?x?xf32, #ts.dims<"a", "b">>)"
#define TX16 R"( : tensor<?x?xbf16, #ts.dims<"a", "b">>)"
#define P                                                                      \
  R"(%p: tensor<?xf32, #ts.dims<"b">>, %q: tensor<?xf32, #ts.dims<"b">>)"
#define TP R"( : tensor<?xf32, #ts.dims<"b">> )"
#define Q(T) "tensor<2x4x?x8x" T ", #ts.dims<2, 4, \"s\", 8>>"
#define K(T) "tensor<2x4x?x8x" T ", #ts.dims<2, 4, \"t\", 8>>"
#define KG(T) "tensor<2x2x?x8x" T ", #ts.dims<2, 2, \"t\", 8>>"
#define QKV(T, KT) "%q: " Q(T) ", %k: " KT(T) ", %v: " KT(T)
#define TYPES(T, KT) " : " Q(T) ", " KT(T) ", " KT(T)
#define TOKENS "tensor<?x5xf32, #ts.dims<\"b\", 5>>"
#define GROUPED "%x: " TOKENS ", %e: tensor<3xi32>, %w: "
#define GROUPED_TYPES TOKENS ", tensor<3x5x5xf32>, tensor<3xi32>"
#define ATT "attention %q, %k, %v scale 0.3 "
#define MASK(T) "tensor<1x4x?x?x" T ", #ts.dims<1, 4, \"s\", \"t\">>"
#define ROPE(H) "tensor<2x3x?x8xf32, #ts.dims<2, 3, \"s\", 8>>"
#define COS(H) "tensor<1x?x" H "xf32, #ts.dims<1, \"s\", " H ">>"

INSTANTIATE_TEST_SUITE_P(
    All, Decomposes,
    testing::Values(
        std::pair{X, "softmax %x dim 1" TX},
        std::pair{X, "softmax %x dim 0" TX},
        std::pair{X, "softmax %x dim 1 {log = true}" TX},
        std::pair{X16, "softmax %x dim 1" TX16},
        std::pair{X, "layer_norm %x dim 1 epsilon 1.0e-5" TX},
        std::pair{X, "layer_norm %x dim 0 epsilon 1.0e-5" TX},
        std::pair{X ", " P, "layer_norm %x scale %p" TP "bias %q" TP
                            "dim 1 epsilon 1.0e-5" TX},
        std::pair{X ", " P, "layer_norm %x scale %p" TP
                            "dim 1 epsilon 1.0e-5 {rms = true}" TX},
        std::pair{X16, "layer_norm %x dim 1 epsilon 1.0e-5" TX16},
        std::pair{X, "gelu %x" TX}, std::pair{X, "gelu %x {tanh = true}" TX},
        std::pair{"%x: " ROPE(8) ", %c: " COS("4") ", %s: " COS("4"),
                  "rope %x, %c, %s : " ROPE(8) ", " COS("4")},
        std::pair{"%x: " ROPE(8) ", %c: " COS("3") ", %s: " COS("3"),
                  "rope %x, %c, %s : " ROPE(8) ", " COS("3")},
        std::pair{
            "%x: " ROPE(8) ", %c: " COS("3") ", %s: " COS("3"),
            "rope %x, %c, %s {interleaved = true} : " ROPE(8) ", " COS("3")},
        std::pair{GROUPED "tensor<3x5x5xf32>",
                  "grouped_matmul %x, %w ends %e : " GROUPED_TYPES},
        std::pair{GROUPED "tensor<3x5x5xf32>",
                  "grouped_matmul %x, %w transposed ends %e : " GROUPED_TYPES},
        std::pair{QKV("f32", K), ATT TYPES("f32", K)},
        std::pair{QKV("f64", K), ATT TYPES("f64", K)},
        std::pair{QKV("f16", KG), ATT TYPES("f16", KG)},
        std::pair{QKV("f32", KG), ATT "{causal = true}" TYPES("f32", KG)},
        std::pair{QKV("f32", K), ATT
                  "{causal = true, causal_top_left = true}" TYPES("f32", K)},
        std::pair{QKV("f32", K), ATT "{softcap = 1.5}" TYPES("f32", K)},
        std::pair{QKV("f32", K) ", %m: " MASK("f32"),
                  "attention %q, %k, %v mask %m : " MASK(
                      "f32") " scale 0.3" TYPES("f32", K)},
        std::pair{QKV("bf16", KG) ", %m: " MASK("i1"),
                  "attention %q, %k, %v mask %m : " MASK(
                      "i1") " scale 0.3" TYPES("bf16", KG)}));

TEST(Decompose, LeavesOtherOpsAlone) {
  MLIRContext context;
  context.loadDialect<TsDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(
      R"(func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
        %0 = ts.exp %x : tensor<2xf32>
        %1 = ts.gelu %0 : tensor<2xf32>
        return %1 : tensor<2xf32>
      })",
      &context);
  func::FuncOp function = *module->getOps<func::FuncOp>().begin();
  Operation *exp = &function.getBody().front().front();
  OpBuilder builder(exp);
  EXPECT_TRUE(failed(decompose(builder, exp)));
  decomposeAll(function.getBody());
  EXPECT_TRUE(isa<GeluOp>(exp->getNextNode()));
}

} // namespace
