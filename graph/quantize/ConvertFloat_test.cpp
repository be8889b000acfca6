// 16-bit storage stays close to float32 for every function of the lit test.
#include "graph/quantize/ConvertFloat.h"

#include "ir/tensor/Dialect.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

static HostTensor randomTensor(Type type, const SymbolValues &symbols,
                               uint64_t seed) {
  auto shape = evaluateShape(type, symbols, 1 << 20);
  DType dtype = *dtypeOf(cast<ShapedType>(type).getElementType());
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal(0, 0.5);
  std::vector<double> values(*elementCountOf(*shape));
  for (double &value : values)
    value = HostTensor::isFloat(dtype) ? normal(engine) : engine() % 32;
  return HostTensor::store<double>(dtype, *shape, values);
}

static std::vector<double> run(func::FuncOp function) {
  EvaluateContext context;
  context.symbols = {{"b", 2}, {"s", 5}};
  context.weights = [&](WeightOp op) -> Expected<HostTensor> {
    return randomTensor(op.getType(), {}, op.getReference().getOffset() + 1);
  };
  std::vector<HostTensor> inputs;
  for (Type type : function.getArgumentTypes())
    inputs.push_back(randomTensor(type, context.symbols, inputs.size()));
  auto results = evaluateFunction(function, inputs, context);
  EXPECT_TRUE(bool(results)) << (results ? "" : results.error().message());
  return results ? (*results)[0].load<double>() : std::vector<double>();
}

TEST(ConvertFloat, StaysClose) {
  DialectRegistry registry;
  registry.insert<TsDialect, func::FuncDialect>();
  MLIRContext context(registry);
  context.loadAllAvailableDialects();
  for (bool half : {false, true}) {
    auto module = parseSourceFile<ModuleOp>(
        std::string(KNAPPER_SOURCE) + "/graph/quantize/test/convert-float.mlir",
        &context);
    ASSERT_TRUE(module);
    FloatType type = half ? FloatType(Float16Type::get(&context))
                          : FloatType(BFloat16Type::get(&context));
    for (func::FuncOp function : module->getOps<func::FuncOp>()) {
      SCOPED_TRACE(function.getName().str() + (half ? " f16" : " bf16"));
      std::vector<double> before = run(function);
      FunctionType signature = function.getFunctionType();
      ASSERT_TRUE(succeeded(convertFloat(function, type)));
      ASSERT_TRUE(succeeded(verify(function)));
      EXPECT_EQ(function.getFunctionType(), signature);
      std::vector<double> after = run(function);
      ASSERT_EQ(before.size(), after.size());
      double worst = 0, largest = 0;
      for (size_t i = 0; i < before.size(); ++i) {
        worst = std::max(worst, std::abs(before[i] - after[i]));
        largest = std::max(largest, std::abs(before[i]));
      }
      // A few roundings of half a unit in the last place (2^-9, 2^-12).
      EXPECT_LE(worst / largest, half ? 4e-3 : 3e-2);
      EXPECT_GT(worst, 0) << "nothing was rounded";
    }
  }
}
