// Constant expressions against the reference evaluator, panels against their
// definition, files that do not fit.
#include "compiler/constants/ConstantMemory.h"
#include "compiler/constants/EvaluateConstants.h"
#include "compiler/constants/VectorLoops.h"
#include "ir/tensor/ConstantExpression.h"
#include "ir/tensor/reference/Evaluate.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include <atomic>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <unistd.h>

using namespace mlir;
using namespace knapper;
using testing::HasSubstr;

namespace {

struct Constants : testing::Test {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string path, made; // `made` is removed at the end
  std::vector<float> weights;

  Constants() {
    context.loadDialect<ts::TsDialect, func::FuncDialect>();
    path = std::filesystem::temp_directory_path() /
           ("knapper_constants_" + std::to_string(getpid()) + ".bin");
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int i = 0; i < 100000; ++i)
      weights.push_back(normal(random));
    made = path;
    std::ofstream file(path, std::ios::binary);
    file.put(0); // everything is off by one byte, as in a protobuf
    file.write(reinterpret_cast<const char *>(weights.data()),
               weights.size() * 4);
  }
  ~Constants() override { std::remove(made.c_str()); }

  /// The value that `body` returns as %r, of type `type`.
  Value parse(const std::string &body, const std::string &type) {
    module = parseSourceString<ModuleOp>(
        "module attributes {ts.files = [\"" + path +
            "\"]} {\nfunc.func @f(%x: tensor<4xf32>) -> " + type + " {\n" +
            body + "\nreturn %r : " + type + "\n}}",
        &context);
    if (!module)
      return {};
    auto function = *module->getOps<func::FuncOp>().begin();
    return function.getBody().front().getTerminator()->getOperand(0);
  }

  Expected<ConstantView> evaluate(Value value, unsigned threads = 2) {
    ASSIGN_OR_RETURN(ConstantFiles files, ConstantFiles::open(*module));
    return evaluateConstant(value, files, {threads});
  }

  /// Bytes equal those of the reference evaluator.
  void check(const std::string &body, const std::string &type) {
    Value value = parse(body, type);
    ASSERT_TRUE(value) << body;
    EXPECT_TRUE(ts::isConstantExpression(value));
    ts::EvaluateContext state;
    state.weights = [&](ts::WeightOp op) -> Expected<ts::HostTensor> {
      auto files = ConstantFiles::open(*module);
      auto bytes = files->data(op.getReference());
      auto tensor = cast<RankedTensorType>(op.getType());
      return ts::HostTensor::borrow(*ts::dtypeOf(tensor.getElementType()),
                                    tensor.getShape(), bytes->data(),
                                    files->owner());
    };
    auto function = *module->getOps<func::FuncOp>().begin();
    auto expected = ts::evaluateFunction(
        function, {ts::HostTensor::allocate(DType::f32, {4})}, state);
    ASSERT_TRUE(expected) << expected.error().message();
    for (unsigned threads : {1, 3}) {
      Expected<ConstantView> actual = evaluate(value, threads);
      ASSERT_TRUE(actual) << actual.error().message();
      EXPECT_EQ(ArrayRef<int64_t>(actual->dims), (*expected)[0].dims());
      std::vector<uint8_t> bytes(actual->bytes() + 1);
      actual->copyTo(bytes.data(), threads);
      ASSERT_EQ(actual->bytes(), (*expected)[0].bytes());
      EXPECT_EQ(
          std::memcmp(bytes.data(), (*expected)[0].data(), actual->bytes()), 0)
          << body;
    }
  }
};

constexpr const char *w = R"(
  %w = ts.weight <0, 1, 24000, "w"> : tensor<60x100xf32>
  %v = ts.weight <0, 24001, 400, "v"> : tensor<100xf32>
)";

TEST_F(Constants, MovementIsLazyAndRight) {
  std::string base = w;
  check(base + "%r = ts.transpose %w [1, 0] : tensor<60x100xf32>",
        "tensor<100x60xf32>");
  check(base + R"(
    %a = ts.reshape %w : tensor<60x100xf32> to tensor<3x20x10x10xf32>
    %b = ts.transpose %a [2, 0, 3, 1] : tensor<3x20x10x10xf32>
    %r = ts.slice %b [#ts.dim<9>, #ts.dim<0>, #ts.dim<1>, #ts.dim<3>] [-2, 1, 3, 4] : tensor<10x3x10x20xf32> to tensor<5x3x3x4xf32>)",
        "tensor<5x3x3x4xf32>");
  check(base + R"(
    %a = ts.transpose %w [1, 0] : tensor<60x100xf32>
    %r = ts.reshape %a : tensor<100x60xf32> to tensor<6000xf32>)",
        "tensor<6000xf32>");
  check(base + R"(
    %a = ts.broadcast %v [1] : tensor<100xf32> to tensor<7x100x3xf32>
    %b = ts.transpose %a [2, 0, 1] : tensor<7x100x3xf32>
    %r = ts.concat %b, %b dim 1 : tensor<3x7x100xf32>, tensor<3x7x100xf32>)",
        "tensor<3x14x100xf32>");
  check(base + R"(
    %z = ts.constant dense<1.5> : tensor<f32>
    %t = ts.transpose %w [1, 0] : tensor<60x100xf32>
    %r = ts.pad %t value %z : tensor<f32> low [#ts.dim<1>, #ts.dim<0>] high [#ts.dim<2>, #ts.dim<4>] : tensor<100x60xf32>)",
        "tensor<103x64xf32>");
  check(base + R"(
    %a = ts.slice %w [#ts.dim<0>, #ts.dim<0>] [1, 1] : tensor<60x100xf32> to tensor<0x100xf32>
    %r = ts.transpose %a [1, 0] : tensor<0x100xf32>)",
        "tensor<100x0xf32>");
}

TEST_F(Constants, ArithmeticEqualsTheReference) {
  std::string base = w;
  for (const char *op : {"add", "sub", "mul", "div", "max", "min"}) {
    check(base + R"(
      %a = ts.broadcast %v [1] : tensor<100xf32> to tensor<60x100xf32>
      %r = ts.)" +
              op + " %w, %a : tensor<60x100xf32>",
          "tensor<60x100xf32>");
    check(base + R"(
      %t = ts.transpose %w [1, 0] : tensor<60x100xf32>
      %a = ts.broadcast %v [0] : tensor<100xf32> to tensor<100x60xf32>
      %r = ts.)" +
              op + " %a, %t : tensor<100x60xf32>",
          "tensor<100x60xf32>");
  }
  for (const char *op : {"neg", "abs", "sqrt", "rsqrt", "exp"})
    check(base + "%r = ts." + op + " %w : tensor<60x100xf32>",
          "tensor<60x100xf32>");
  // Folding of a batch norm: scale / sqrt(variance + epsilon) times a filter.
  check(base + R"(
    %e = ts.constant dense<1.0e-05> : tensor<f32>
    %eb = ts.broadcast %e [] : tensor<f32> to tensor<100xf32>
    %q = ts.abs %v : tensor<100xf32>
    %s = ts.add %q, %eb : tensor<100xf32>
    %i = ts.rsqrt %s : tensor<100xf32>
    %f = ts.mul %v, %i : tensor<100xf32>
    %fb = ts.broadcast %f [1] : tensor<100xf32> to tensor<60x100xf32>
    %p = ts.mul %w, %fb : tensor<60x100xf32>
    %r = ts.convert %p : tensor<60x100xf32> to tensor<60x100xbf16>)",
        "tensor<60x100xbf16>");
}

TEST_F(Constants, EverythingElseRunsInTheReference) {
  check(std::string(w) + "%r = ts.reduce add %w [0] : tensor<60x100xf32>",
        "tensor<100xf32>");
  check(std::string(w) + R"(
    %k, %i = ts.topk %v k <3> dim 0 : tensor<100xf32>
    %r = ts.convert %i : tensor<3xi64> to tensor<3xi32>)",
        "tensor<3xi32>");
}

TEST_F(Constants, LongSharedChainsAreLinear) {
  std::string body = w;
  body += "%c0 = ts.add %v, %v : tensor<100xf32>\n";
  for (int i = 1; i < 3000; ++i)
    body += "%c" + std::to_string(i) + " = ts." + (i % 2 ? "sub" : "max") +
            " %c" + std::to_string(i - 1) + ", %c" + std::to_string(i - 1) +
            " : tensor<100xf32>\n";
  check(body + "%r = ts.neg %c2999 : tensor<100xf32>", "tensor<100xf32>");
}

TEST_F(Constants, KnowsWhatIsConstant) {
  EXPECT_FALSE(ts::isConstantExpression(parse(
      std::string(w) + "%r = ts.neg %x : tensor<4xf32>", "tensor<4xf32>")));
  EXPECT_FALSE(ts::isConstantExpression(parse(
      R"(%s = ts.size <"n"> : tensor<i64>
         %r = ts.convert %s : tensor<i64> to tensor<f32>)",
      "tensor<f32>")));
  Value value = parse(R"(%a = ts.neg %x : tensor<4xf32>
         %c = ts.constant dense<1.0> : tensor<4xf32>
         %r = ts.add %c, %a : tensor<4xf32>)",
                      "tensor<4xf32>");
  ts::ConstantExpressions constants;
  EXPECT_FALSE(constants.contains(value));
  EXPECT_TRUE(constants.contains(value.getDefiningOp()->getOperand(0)));
  EXPECT_FALSE(constants.contains(value.getDefiningOp()->getOperand(1)));
  EXPECT_EQ(evaluate(value).error().kind, ErrorKind::internal);
}

TEST_F(Constants, RefusesReferencesOutsideTheFile) {
  auto refusal = [&](const char *weight, const char *type) {
    Value value =
        parse(std::string("%r = ts.weight <") + weight + "> : " + type, type);
    auto result = evaluate(value);
    return result ? std::string("accepted") : result.error().message();
  };
  EXPECT_EQ(refusal("0, 399997, 4, \"w\"", "tensor<1xf32>"), "accepted");
  EXPECT_THAT(refusal("0, 399998, 4, \"w\"", "tensor<1xf32>"),
              HasSubstr("'w' takes 4 bytes at offset 399998, the file has "
                        "400001"));
  EXPECT_THAT(refusal("0, 18446744073709551615, 4, \"w\"", "tensor<1xf32>"),
              HasSubstr("the file has"));
  EXPECT_THAT(refusal("7, 0, 4, \"w\"", "tensor<1xf32>"),
              HasSubstr("'w' refers to file 7 of 1"));
  path = "/nowhere/model.data";
  EXPECT_THAT(refusal("0, 0, 4, \"w\"", "tensor<1xf32>"),
              HasSubstr("/nowhere/model.data: cannot open"));
  path = "/tmp";
  EXPECT_THAT(refusal("0, 0, 4, \"w\"", "tensor<1xf32>"),
              HasSubstr("/tmp: is not a file"));
}

TEST_F(Constants, ReadsModelsInMemory) {
  path = "";
  Value value =
      parse("%r = ts.weight <0, 4, 8, \"w\"> : tensor<2xi32>", "tensor<2xi32>");
  std::string data("\1\0\0\0\2\0\0\0\3\0\0\0", 12);
  auto files = ConstantFiles::open(*module, {std::string_view(data)});
  ASSERT_TRUE(files);
  auto view = evaluateConstant(value, *files);
  ASSERT_TRUE(view);
  EXPECT_EQ(static_cast<const void *>(view->data), data.data() + 4);
}

TEST_F(Constants, MemoryIsThatOfLiveValues) {
  auto memory = [&](const std::string &body, const std::string &type,
                    uint64_t allowance = 1 << 30) {
    Value value = parse(body, type);
    EXPECT_TRUE(value);
    return memoryOfConstant(value, allowance);
  };
  std::string splat = "%a = ts.constant dense<2.0> : tensor<1000xf32>\n";
  // A number seen as all of them, and a dense copy of it.
  Expected<uint64_t> bytes = memory(
      "%r = ts.constant dense<2.0> : tensor<1000xf32>", "tensor<1000xf32>");
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, 4000u);
  // Two copies, the result; widened to doubles where the reference computes.
  bytes = memory(splat + "%r = ts.add %a, %a : tensor<1000xf32>",
                 "tensor<1000xf32>");
  ASSERT_TRUE(bytes);
  EXPECT_GE(*bytes, 12000u);
  EXPECT_LE(*bytes, 36000u);
  // Chains hold two at a time, not all.
  std::string chain = splat;
  for (int i = 0; i < 20; ++i)
    chain += "%v" + std::to_string(i) + " = ts.exp %" +
             (i ? "v" + std::to_string(i - 1) : "a") + " : tensor<1000xf32>\n";
  bytes =
      memory(chain + "%r = ts.exp %v19 : tensor<1000xf32>", "tensor<1000xf32>");
  ASSERT_TRUE(bytes);
  EXPECT_LE(*bytes, 40000u);
  // What is allowed grows with what is read.
  auto refused = memory(splat + "%r = ts.exp %a : tensor<1000xf32>",
                        "tensor<1000xf32>", 10000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::user);
  EXPECT_THAT(refused.error().what, HasSubstr("depends on constants only"));
  EXPECT_TRUE(memory("%w = ts.weight<0, 1, 4000, \"w\"> : tensor<1000xf32>\n"
                     "%r = ts.exp %w : tensor<1000xf32>",
                     "tensor<1000xf32>", 10000));
}

TEST(MemoryGate, LetsIn) {
  MemoryGate gate(100);
  std::atomic<int> inside = 0, most = 0;
  auto work = [&](uint64_t bytes) {
    for (int i = 0; i < 200; ++i) {
      MemoryGate::Pass pass(gate, bytes);
      int now = ++inside;
      if (now > most)
        most = now;
      std::this_thread::yield();
      --inside;
    }
  };
  std::vector<std::thread> threads;
  for (uint64_t bytes : {60, 70, 1000}) // no two of them
    threads.emplace_back(work, bytes);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(most, 1);
}

TEST(PackPanels, FollowTheirDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    int64_t k = random() % 70, n = random() % 70, width = 1 + random() % 48;
    int64_t kStride = n, nStride = 1;
    if (random() % 2) {
      kStride = 1;
      nStride = k;
    }
    if (random() % 3 == 0) { // gaps
      kStride = kStride * 3;
      nStride = nStride * 3;
    }
    std::vector<uint16_t> in(3 * k * n + 1);
    for (uint16_t &value : in)
      value = random();
    std::vector<uint16_t> out(packedPanelBytes(k, n, width, DType::bf16) / 2,
                              0xffff);
    packPanels(out.data(), {in.data(), k, n, kStride, nStride}, width,
               DType::bf16, 1 + random() % 3);
    for (int64_t p = 0; p * width < n; ++p)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < width; ++j) {
          int64_t column = p * width + j;
          uint16_t expected =
              column < n ? in[i * kStride + column * nStride] : 0;
          ASSERT_EQ(out[(p * k + i) * width + j], expected);
        }
  }
}

TEST(PackPanels, GroupsFollowTheirDefinition) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    int64_t k = random() % 140, n = random() % 70, width = 1 + random() % 48;
    int64_t group = 2 + random() % 3, groups = (k + group - 1) / group;
    bool transposed = random() % 2;
    int64_t kStride = transposed ? 1 : n, nStride = transposed ? k : 1;
    std::vector<uint8_t> in(k * n + 1);
    for (uint8_t &value : in)
      value = random();
    uint64_t bytes = packedPanelBytes(k, n, width, DType::i8, group);
    ASSERT_EQ(bytes, (n + width - 1) / width * width * groups * group);
    std::vector<uint8_t> out(bytes, 0xff);
    packPanels(out.data(), {in.data(), k, n, kStride, nStride}, width,
               DType::i8, 1 + random() % 3, group);
    for (int64_t at = 0; at < int64_t(bytes); ++at) {
      int64_t i = at / (group * width) % std::max<int64_t>(1, groups) * group +
                  at % group;
      int64_t column =
          at / (group * width * groups) * width + at / group % width;
      ASSERT_EQ(out[at],
                i < k && column < n ? in[i * kStride + column * nStride] : 0);
    }
  }
}

TEST(PackPanels, NibblesFollowTheirDefinition) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    int64_t k = random() % 70, n = random() % 70, width = 1 + random() % 48;
    int64_t pairs = (k + 1) / 2;
    bool transposed = random() % 2;
    int64_t kStride = transposed ? 1 : n, nStride = transposed ? k : 1;
    std::vector<uint8_t> in(k * n + 1);
    for (uint8_t &value : in)
      value = random(); // what is above four bits is ignored
    std::vector<uint8_t> out(packedPanelBytes(pairs, n, width, DType::i8),
                             0xff);
    packNibbles(out.data(), {in.data(), k, n, kStride, nStride}, width,
                1 + random() % 3);
    for (int64_t at = 0; at < int64_t(out.size()); ++at) {
      int64_t i = at / width % pairs * 2;
      int64_t column = at / (width * pairs) * width + at % width;
      auto expected = [&](int64_t row) {
        return row < k && column < n ? in[row * kStride + column * nStride] & 15
                                     : 0;
      };
      ASSERT_EQ(out[at], expected(i) | expected(i + 1) << 4);
    }
  }
}

TEST_F(Constants, PanelsOfViewsRepeatOverLeadingDims) {
  Value value = parse(std::string(w) + R"(
    %a = ts.reshape %w : tensor<60x100xf32> to tensor<3x20x100xf32>
    %r = ts.transpose %a [0, 2, 1] : tensor<3x20x100xf32>)",
                      "tensor<3x100x20xf32>");
  auto view = evaluate(value);
  ASSERT_TRUE(view);
  uint64_t one = packedPanelBytes(100, 20, 16, DType::f32);
  std::vector<float> out(3 * one / 4), again(3 * one / 4);
  packPanels(out.data(), *view, /*transposed=*/false, 16);
  EXPECT_EQ(out[one / 4 * 2 + 5 * 16 + 3], weights[4000 + 3 * 100 + 5]);
  value = parse(std::string(w) + "%r = ts.reshape %w : tensor<60x100xf32> to "
                                 "tensor<3x20x100xf32>",
                "tensor<3x20x100xf32>");
  auto plain = evaluate(value);
  packPanels(again.data(), *plain, /*transposed=*/true, 16, 2);
  EXPECT_EQ(out, again);
}

TEST(VectorLoops, ConversionsEqualTheReference) {
  std::vector<float> in;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 977) {
    auto pattern = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &pattern, 4);
    in.push_back(value);
  }
  std::vector<uint16_t> f16(in.size()), bf16(in.size());
  convertF32ToF16(f16.data(), in.data(), in.size());
  convertF32ToBf16(bf16.data(), in.data(), in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    ASSERT_EQ(f16[i], ts::doubleToF16(in[i])) << in[i];
    ASSERT_EQ(bf16[i], ts::doubleToBf16(in[i])) << in[i];
  }
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float wide, brain;
    convertF16ToF32(&wide, &half, 1);
    convertBf16ToF32(&brain, &half, 1);
    double expected = ts::f16ToDouble(half);
    ASSERT_TRUE(wide == expected || (std::isnan(wide) && std::isnan(expected)));
    ASSERT_EQ(std::signbit(wide), std::signbit(expected) || (half & 0x8000));
    expected = ts::bf16ToDouble(half);
    ASSERT_TRUE(brain == expected ||
                (std::isnan(brain) && std::isnan(expected)));
  }
}

} // namespace
