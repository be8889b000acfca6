// Random graphs before and after kernels are formed: same values, every op in
// one kernel, operands defined before they are used. Signatures.
#include "graph/fusion/Constants.h"
#include "graph/fusion/FormKernels.h"
#include "graph/fusion/Rules.h"
#include "graph/fusion/Signature.h"
#include "graph/fusion/Views.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/JSON.h"
#include "gtest/gtest.h"

#include <random>

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace {

/// Figures of a CPU: fusion weighs a launch against traffic and arithmetic.
constexpr config::Machine kMachine{.keptBytes = 4 << 20,
                                   .fmaFlops = 4e11,
                                   .copyBandwidth = 2e10,
                                   .cacheBandwidth = 1e11,
                                   .launchSeconds = 2e-6};

struct FormKernelsTest : ::testing::Test {
  MLIRContext context;
  FormKernelsTest() { context.loadDialect<TsDialect, func::FuncDialect>(); }
};

/// Makes a function of random ops over a handful of shapes.
class GraphGenerator {
public:
  GraphGenerator(MLIRContext &context, unsigned seed)
      : context(context), builder(&context), random(seed) {}

  OwningOpRef<ModuleOp> make(unsigned count) {
    Location loc = builder.getUnknownLoc();
    OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
    SmallVector<Type> inputs{type({b(), s(), n(8)}), type({b(), s(), n(8)}),
                             type({s(), n(8)}), type({b(), s()}),
                             type({b(), n(2), s(), n(4)})};
    auto function =
        func::FuncOp::create(loc, "f", builder.getFunctionType(inputs, {}));
    module->push_back(function);
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    pool.assign(block->args_begin(), block->args_end());
    for (auto shape : {std::vector<int64_t>{8}, {8, 8}, {8, 4}}) {
      auto weight = RankedTensorType::get(shape, builder.getF32Type());
      SmallVector<float> values;
      for (int64_t i = 0; i < weight.getNumElements(); ++i)
        values.push_back(0.1f * static_cast<float>(pick(20)) - 1.0f);
      pool.push_back(ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(weight, ArrayRef<float>(values))));
    }
    for (unsigned i = 0; i < count; ++i)
      if (Value value = step(loc))
        pool.push_back(value);
    // Everything unused and a few more are results.
    SmallVector<Value> results;
    for (Value value : pool)
      if (value.getDefiningOp() && (value.use_empty() || pick(8) == 0))
        results.push_back(value);
    func::ReturnOp::create(builder, loc, results);
    function.setFunctionType(
        builder.getFunctionType(inputs, ValueRange(results).getTypes()));
    return module;
  }

private:
  Dim n(int64_t value) { return Dim::constant(&context, value); }
  Dim b() { return Dim::symbol(&context, "b"); }
  Dim s() { return Dim::symbol(&context, "s"); }
  Type type(ArrayRef<Dim> dims) {
    return tensorType(&context, dims, builder.getF32Type());
  }
  unsigned pick(unsigned bound) { return random() % bound; }
  Value any() {
    // Mostly recent ones, so that chains grow.
    unsigned recent = std::min<unsigned>(pool.size(), 6);
    return pick(3) ? pool[pool.size() - 1 - pick(recent)]
                   : pool[pick(pool.size())];
  }
  Value like(Value value) {
    SmallVector<Value> same;
    for (Value other : pool)
      if (other.getType() == value.getType())
        same.push_back(other);
    return same[pick(same.size())];
  }

  Value step(Location loc) {
    Value x = any();
    SmallVector<Dim> dims = dimsOf(x);
    int64_t rank = dims.size();
    switch (pick(20)) {
    case 0:
      return TanhOp::create(builder, loc, x);
    case 1:
      return NegOp::create(builder, loc, x);
    case 2:
    case 3:
      return AddOp::create(builder, loc, x, like(x));
    case 4:
      return MulOp::create(builder, loc, x, like(x));
    case 5: { // new leading dim or back to a known shape
      SmallVector<Dim> to{b()};
      if (rank == 0 || rank > 3)
        return {};
      if (rank == 1)
        to.push_back(s());
      llvm::append_range(to, dims);
      SmallVector<int64_t> map;
      for (int64_t i = 0; i < rank; ++i)
        map.push_back(i + to.size() - rank);
      return BroadcastOp::create(builder, loc, type(to), x, map);
    }
    case 6: { // merge the first two dims, or split the last
      if (rank < 2)
        return {};
      SmallVector<Dim> to;
      if (pick(2)) {
        to.push_back(dims[0] * dims[1]);
        llvm::append_range(to, ArrayRef<Dim>(dims).drop_front(2));
      } else {
        if (!dims.back().isConstant(8))
          return {};
        to = dims;
        to.back() = n(2);
        to.push_back(n(4));
      }
      return ReshapeOp::create(builder, loc, type(to), x);
    }
    case 7: {
      SmallVector<int64_t> permutation(rank);
      std::iota(permutation.begin(), permutation.end(), 0);
      std::shuffle(permutation.begin(), permutation.end(), random);
      return TransposeOp::create(builder, loc, x, permutation);
    }
    case 8: {
      if (rank == 0 || !dims.back().isConstant(8))
        return {};
      SmallVector<Dim> starts(rank, n(0)), to = dims;
      starts.back() = n(pick(5));
      to.back() = n(4);
      SmallVector<int64_t> steps(rank, 1);
      return SliceOp::create(builder, loc, type(to), x,
                             dimArray(&context, starts), steps);
    }
    case 9:
    case 10: {
      if (rank == 0)
        return {};
      SmallVector<int64_t> reduced{pick(3) ? rank - 1
                                           : static_cast<int64_t>(pick(rank))};
      Value r = ReduceOp::create(builder, loc,
                                 pick(2) ? ReduceKind::add : ReduceKind::max, x,
                                 reduced);
      if (pick(2))
        return r;
      // Back to the whole shape, as a normalisation does.
      pool.push_back(r);
      SmallVector<int64_t> map;
      for (int64_t i = 0; i < rank; ++i)
        if (i != reduced[0])
          map.push_back(i);
      Value whole = BroadcastOp::create(builder, loc, x.getType(), r, map);
      return SubOp::create(builder, loc, x, whole);
    }
    case 11:
      if (rank == 0)
        return {};
      return SoftmaxOp::create(builder, loc, x, rank - 1, false);
    case 12:
      if (rank == 0 || !dims.back().isConstant(8))
        return {};
      return LayerNormOp::create(builder, loc, x, pool[5], Value(),
                                 static_cast<uint64_t>(rank - 1),
                                 llvm::APFloat(1e-5), false);
    case 13:
    case 14:
      if (rank < 2 || !dims.back().isConstant(8))
        return {};
      return DotOp::create(builder, loc, x, pool[6 + pick(2)],
                           ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                           ArrayRef<int64_t>{rank - 1}, ArrayRef<int64_t>{0},
                           TypeAttr());
    case 15: {
      if (rank != 4 || !dims[3].isConstant(4))
        return {};
      Value k = like(x), v = like(x);
      return AttentionOp::create(builder, loc, x, k, v, Value(),
                                 llvm::APFloat(0.5), false, false,
                                 llvm::APFloat(0.0));
    }
    case 16:
      if (rank == 0)
        return {};
      return ConcatOp::create(builder, loc, ValueRange{x, like(x)}, pick(rank));
    case 17:
      if (rank == 0)
        return {};
      return ScanOp::create(builder, loc, ReduceKind::add, x, rank - 1, false,
                            false);
    case 18: {
      Value i32 = ConvertOp::create(
          builder, loc, withElement(x.getType(), builder.getI32Type()), x);
      return ConvertOp::create(builder, loc, x.getType(), i32);
    }
    default: {
      SmallVector<Dim> low(rank, n(0)), high(rank, n(1));
      Value zero = ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(
              RankedTensorType::get({}, builder.getF32Type()), 0.5f));
      return PadOp::create(builder, loc, x, zero, dimArray(&context, low),
                           dimArray(&context, high), PadMode::constant);
    }
    }
  }

  MLIRContext &context;
  OpBuilder builder;
  std::mt19937 random;
  SmallVector<Value> pool;
};

SmallVector<HostTensor> inputsOf(func::FuncOp function, unsigned seed) {
  std::mt19937 random(seed);
  SmallVector<HostTensor> inputs;
  for (Type type : function.getArgumentTypes()) {
    Shape shape;
    for (Dim dim : dimsOf(type))
      shape.push_back(
          *dim.evaluate([](StringRef name) -> std::optional<int64_t> {
            return name == "b" ? 2 : 3;
          }));
    std::vector<double> values(*elementCountOf(shape));
    for (double &value : values)
      value = static_cast<double>(random() % 2001) / 1000.0 - 1.0;
    inputs.push_back(HostTensor::store(DType::f32, shape, values));
  }
  return inputs;
}

/// Ops that were moved, as (name -> count), without those that may be copied.
std::map<std::string, int> census(func::FuncOp function) {
  std::map<std::string, int> counts;
  function.walk([&](Operation *op) {
    if (!isReindex(op) &&
        !isa<ConstantOp, KernelOp, YieldOp, func::FuncOp, func::ReturnOp>(op))
      ++counts[op->getName().getStringRef().str()];
  });
  return counts;
}

TEST_F(FormKernelsTest, RandomGraphsKeepTheirMeaning) {
  unsigned kernels = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    OwningOpRef<ModuleOp> module =
        GraphGenerator(context, seed).make(6 + seed % 30);
    ASSERT_TRUE(succeeded(verify(*module)));
    auto function = *module->getOps<func::FuncOp>().begin();
    std::map<std::string, int> before = census(function);
    SmallVector<HostTensor> inputs = inputsOf(function, seed);
    EvaluateContext expectedContext, actualContext;
    auto expected = evaluateFunction(function, inputs, expectedContext);
    ASSERT_TRUE(expected) << expected.error().message();

    FusionReport report;
    ASSERT_TRUE(succeeded(formKernels(function, kMachine, &report)));
    ASSERT_TRUE(succeeded(verify(*module))) << "not in order";
    auto actual = evaluateFunction(function, inputs, actualContext);
    ASSERT_TRUE(actual) << actual.error().message();
    ASSERT_EQ(expected->size(), actual->size());
    for (auto [a, e] : llvm::zip(*actual, *expected)) {
      ASSERT_EQ(a.typeText(), e.typeText());
      EXPECT_EQ(0, memcmp(a.data(), e.data(), a.bytes()));
    }

    EXPECT_EQ(before, census(function));
    unsigned formed = 0;
    for (Operation &op : function.getBody().front().without_terminator()) {
      if (auto kernel = dyn_cast<KernelOp>(op)) {
        ++formed;
        SmallVector<Operation *> inside;
        for (Operation &inner : kernel.getBody().front().without_terminator())
          inside.push_back(&inner);
        Verdict verdict = judge(OpSet(inside));
        ASSERT_TRUE(verdict.hero.has_value()) << verdict.reason;
        EXPECT_EQ(*verdict.hero, kernel.getHero());
        EXPECT_GT(kernel.getNumResults(), 0u);
        for (Value result : kernel.getResults())
          EXPECT_FALSE(result.use_empty());
      } else {
        EXPECT_TRUE(isView(&op) || isConstantExpression(op.getResult(0)))
            << op.getName().getStringRef().str();
      }
    }
    EXPECT_EQ(formed, report.kernels.size());
    kernels += formed;
    if (HasFailure()) {
      module->dump();
      return;
    }
  }
  RecordProperty("kernels", kernels);
  EXPECT_GT(kernels, 500u);
}

TEST_F(FormKernelsTest, PlacesOfAHeroThatIsTransposed) {
  // A permutation that is not its own inverse.
  auto module = parseSourceString<ModuleOp>(
      "func.func @f(%x: tensor<2x3x5x4xf32>) -> tensor<5x2x3x4xf32> {\n"
      "  %0 = ts.neg %x : tensor<2x3x5x4xf32>\n"
      "  %1 = ts.transpose %0 [2, 0, 1, 3] : tensor<2x3x5x4xf32>\n"
      "  return %1 : tensor<5x2x3x4xf32>\n}\n",
      &context);
  ASSERT_TRUE(module);
  Block &body = (*module->getOps<func::FuncOp>().begin()).getBody().front();
  Value hero = body.front().getResult(0);
  auto view = placesIn(body.front().getNextNode()->getResult(0), hero);
  ASSERT_TRUE(view);
  for (auto [i, stride] : llvm::enumerate(SmallVector<int64_t>{12, 4, 24, 1}))
    EXPECT_TRUE(view->dims[i].stride.isConstant(stride)) << i;
}

TEST_F(FormKernelsTest, ReportSaysWhatWasFusedAndWhyNotMore) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(R"(
    !t = tensor<64x64xf32>
    func.func @main(%x: !t) -> !t {
      %0 = ts.dot %x, %x batch [] x [] contract [1] x [0] : !t, !t loc("first")
      %1 = ts.tanh %0 : !t loc("act")
      %2 = ts.dot %1, %x batch [] x [] contract [1] x [0] : !t, !t loc("second")
      return %2 : !t
    })",
                                                             &context);
  ASSERT_TRUE(module);
  FusionReport report;
  ASSERT_TRUE(succeeded(
      formKernels(*module->getOps<func::FuncOp>().begin(), kMachine, &report)));
  ASSERT_EQ(report.kernels.size(), 2u);
  EXPECT_EQ(report.kernels[0].hero, "matmul");
  EXPECT_EQ(report.kernels[0].function, "main");
  EXPECT_EQ(report.kernels[0].ops, std::vector<std::string>({"dot", "tanh"}));
  EXPECT_EQ(report.kernels[0].origins,
            std::vector<std::string>({"first", "act"}));
  EXPECT_GT(report.kernels[0].seconds, 0);
  ASSERT_EQ(report.boundaries.size(), 1u);
  EXPECT_EQ(report.boundaries[0].producer, 0u);
  EXPECT_EQ(report.boundaries[0].consumer, 1u);
  EXPECT_EQ(report.boundaries[0].reason, "a kernel holds one of dot and dot");
  EXPECT_GT(report.boundaries[0].secondsSaved, 0);
  auto json = llvm::json::parse(report.json());
  ASSERT_TRUE(bool(json));
  const llvm::json::Object &root = *json->getAsObject();
  EXPECT_EQ(root.getArray("kernels")->size(), 2u);
  EXPECT_EQ(
      (*root.getArray("boundaries"))[0].getAsObject()->getString("reason"),
      "a kernel holds one of dot and dot");
}

} // namespace
