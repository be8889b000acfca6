// Verification through the C API: right programs pass, a wrong one is named.
#include "compiler/verify/VerifyKernels.h"
#include "knapper/knapper.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper;
using testing::HasSubstr;

namespace {

constexpr const char *program = R"(
func.func @main(%x: tensor<?x8xf32, #ts.dims<"n", 8>>) -> tensor<?x16xf32, #ts.dims<"n", 16>> {
  %w = ts.constant dense<0.5> : tensor<8x16xf32>
  %0 = ts.dot %x, %w batch [] x [] contract [1] x [0] : tensor<?x8xf32, #ts.dims<"n", 8>>, tensor<8x16xf32> loc("/mlp/MatMul")
  %1 = ts.softmax %0 dim 1 : tensor<?x16xf32, #ts.dims<"n", 16>> loc("/Softmax")
  %2 = ts.transpose %1 [1, 0] : tensor<?x16xf32, #ts.dims<"n", 16>> loc("/Transpose")
  %3 = ts.softmax %2 dim 1 : tensor<16x?xf32, #ts.dims<16, "n">> loc("/Softmax_1")
  %4 = ts.transpose %3 [1, 0] : tensor<16x?xf32, #ts.dims<16, "n">> loc("/Transpose_1")
  return %4 : tensor<?x16xf32, #ts.dims<"n", 16>>
})";

/// Bytes are ONNX unless the caller says that they are text.
void readsText(knapper_compile_options &options) {
  static constexpr knapper_option text = {"model-format", "mlir"};
  options.options = &text;
  options.num_options = 1;
}
Options textOptions() {
  Options options;
  options.modelFormat = "mlir";
  return options;
}

/// x [rows, 8] f32 of 5 * 8 numbers, with which a program in text is verified.
struct Verification {
  std::vector<float> x = std::vector<float>(5 * 8);
  char *json = nullptr;

  Verification() {
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = static_cast<float>(i % 7) - 3;
  }
  ~Verification() { knapper_string_release(json); }

  knapper_error *run(const char *text, int64_t rows = 5) {
    int64_t shape[] = {rows, 8};
    knapper_tensor tensor{x.data(), x.size() * 4, KNAPPER_F32, 2, shape};
    knapper_compile_options options = KNAPPER_COMPILE_OPTIONS_INIT;
    readsText(options);
    options.model_bytes = text;
    options.model_size = strlen(text);
    return knapper_verify(&options, &tensor, 1, &json);
  }
};

TEST(Verify, EveryKernelAgreesWithTheReference) {
  Verification right, tooFewBytes;
  knapper_error *error = right.run(program);
  ASSERT_EQ(error, nullptr) << knapper_error_get_message(error);
  EXPECT_THAT(right.json, HasSubstr("\"first_divergent\":null"));
  EXPECT_THAT(right.json, HasSubstr("MatMul"));
  EXPECT_THAT(right.json, HasSubstr("\"passed\":true"));
  error = tooFewBytes.run(program, 6);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_USER);
  EXPECT_THAT(knapper_error_get_message(error),
              HasSubstr("fewer bytes than its shape needs"));
  knapper_error_release(error);
}

TEST(Verify, BranchesAndLoopsAreCheckedAsAWhole) {
  constexpr const char *text = R"(
module {
func.func private @iteration(%h: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = ts.tanh %h : tensor<8xf32>
  return %0, %0 : tensor<8xf32>, tensor<8xf32>
}
func.func @main(%x: tensor<?x8xf32, #ts.dims<"n", 8>>) -> tensor<?x8xf32, #ts.dims<"n", 8>> {
  %0 = ts.reduce add %x [0] : tensor<?x8xf32, #ts.dims<"n", 8>>
  %1:2 = ts.loop @iteration counter "i" trips <"n"> carried(%0 : tensor<8xf32>) captures() symbols [] reversed [true] to (tensor<8xf32>, tensor<?x8xf32, #ts.dims<"n", 8>>) loc("/Loop")
  %2 = ts.exp %1#1 : tensor<?x8xf32, #ts.dims<"n", 8>>
  return %2 : tensor<?x8xf32, #ts.dims<"n", 8>>
}
})";
  Verification loop;
  knapper_error *error = loop.run(text);
  ASSERT_EQ(error, nullptr) << knapper_error_get_message(error);
  EXPECT_THAT(loop.json, HasSubstr("\"first_divergent\":null"));
  EXPECT_THAT(loop.json, HasSubstr("\"origin\":\"/Loop\",\"hero\":\"loop\""));
}

TEST(Verify, ChecksTheNumberOfOutputs) {
  ts::HostTensor x = ts::HostTensor::store<double>(DType::f32, {2, 8},
                                                   std::vector<double>(16, 1));
  auto nothing = [&](int, const std::vector<ts::HostTensor> &)
      -> Expected<std::vector<ts::HostTensor>> {
    return std::vector<ts::HostTensor>();
  };
  auto report = verifyModel({{}, program}, textOptions(), {x}, nothing);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message(), HasSubstr("another number of outputs"));
}

TEST(Verify, ChargesTheKernelThatMadeTheError) {
  constexpr const char *two = R"(
func.func @main(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %0 = ts.softmax %x dim 0 : tensor<4x6xf32> loc("/First")
  %1 = ts.reduce add %0 [1] : tensor<4x6xf32> loc("/Second")
  return %1 : tensor<4xf32>
})";
  // Runs the program by hand: columns of a softmax over equal values are 1/4,
  // rows of six add up to 1.5; the first kernel's output gets one wrong
  // element, and the second follows it.
  ts::HostTensor x = ts::HostTensor::store<double>(DType::f32, {4, 6},
                                                   std::vector<double>(24, 2));
  auto run = [&](int, const std::vector<ts::HostTensor> &)
      -> Expected<std::vector<ts::HostTensor>> {
    std::vector<double> softmax(24, 0.25), sums(4, 1.5);
    softmax[7] = 0.375;
    sums[1] = 1.625;
    std::vector<ts::HostTensor> outputs{
        ts::HostTensor::store(DType::f32, {4}, sums)};
    outputs.push_back(ts::HostTensor::store(DType::f32, {4, 6}, softmax));
    return outputs;
  };
  auto report = verifyModel({{}, two}, textOptions(), {x}, run);
  if (!report) {
    // Fused into one kernel: there is one output then.
    EXPECT_THAT(report.error().message(), HasSubstr("number of outputs"));
    GTEST_SKIP() << "one kernel computes both";
  }
  ASSERT_EQ(report->kernels.size(), 2u);
  ASSERT_TRUE(report->firstDivergent());
  EXPECT_THAT(report->firstDivergent()->origin, HasSubstr("First"));
  EXPECT_THAT(report->firstDivergent()->worst,
              HasSubstr("element 7 of f32[4, 6] is 0.375"));
  EXPECT_TRUE(report->kernels[1].passed());
  EXPECT_THAT(report->json(), HasSubstr("\"first_divergent\":0"));
}

} // namespace
