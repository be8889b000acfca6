// Operators of the host's, registered by the C API or loaded from a shared
// object.
#include "capi/testing/TakeError.h"
#include "knapper/knapper.h"
#include "runtime/testing/TestArtefact.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

using ::testing::HasSubstr;
using namespace knapper::testing;
using knapper::DType;

/// y = Op(x) of any size, by an operator of the host's.
static std::vector<std::byte> callsOperator(const char *domain,
                                            const char *name) {
  TestArtefact a;
  uint32_t n = a.symbol("n", 0);
  uint32_t x = a.input("x", DType::f32, {n});
  uint32_t y = a.output("y", DType::f32, {n});
  a.external(a.region(), domain, name, {{x, DType::f32, {n}}},
             {{y, DType::f32, {n}}});
  return a.bytes();
}

/// The second element of what the module makes of `x`; NaN if it makes nothing.
static float secondOf(knapper_module *module, const knapper_tensor &x) {
  knapper_tensor y = {};
  knapper_result *result = nullptr;
  EXPECT_EQ(take(knapper_run(module, &x, 1, nullptr, 0, &result)), "no error");
  if (!result)
    return NAN;
  EXPECT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
  float second = y.data ? static_cast<float *>(y.data)[1] : NAN;
  knapper_result_release(result);
  return second;
}

TEST(OperatorApi, RegistersOperators) {
  knapper_operator op = KNAPPER_OPERATOR_INIT;
  op.domain = "test";
  op.name = "Scale";
  op.compute = [](void *user, const knapper_call *call) {
    auto *x = static_cast<const float *>(call->inputs[0].data);
    auto *y = static_cast<float *>(call->outputs[0].data);
    for (int64_t i = 0; i < call->inputs[0].shape[0]; ++i)
      y[i] = x[i] * *static_cast<float *>(user);
    if (call->inputs[0].shape[0] != 1)
      return 0;
    call->fail(call, "one is too few");
    return 1;
  };
  float factor = 3;
  op.user = &factor;
  op.release = [](void *user) { *static_cast<float *>(user) = 0; };
  std::vector<std::byte> bytes = callsOperator("test", "Scale");
  knapper_module *module = nullptr;
  knapper_error *missing =
      knapper_load_memory(bytes.data(), bytes.size(), nullptr, &module);
  ASSERT_NE(missing, nullptr);
  EXPECT_EQ(knapper_error_get_kind(missing), KNAPPER_ERROR_USER);
  EXPECT_THAT(take(missing),
              HasSubstr("operator test.Scale is not registered"));
  EXPECT_EQ(knapper_has_operator("test", "Scale"), 0);
  ASSERT_EQ(take(knapper_register_operator(&op)), "no error");
  EXPECT_EQ(knapper_has_operator("test", "Scale"), 1);
  ASSERT_EQ(
      take(knapper_load_memory(bytes.data(), bytes.size(), nullptr, &module)),
      "no error");
  ASSERT_EQ(take(knapper_unregister_operator("test", "Scale")), "no error");
  EXPECT_EQ(factor, 3); // the module has it
  std::vector<float> data{1, 2};
  std::vector<int64_t> shape{2};
  knapper_tensor x = knapper::testing::tensor(data, shape);
  EXPECT_EQ(secondOf(module, x), 6);
  knapper_result *result = nullptr;
  shape[0] = 1;
  EXPECT_THAT(take(knapper_run(module, &x, 1, nullptr, 0, &result)),
              HasSubstr("Scale_node: one is too few"));
  const char *json = nullptr;
  ASSERT_EQ(take(knapper_module_describe(module, &json)), "no error");
  EXPECT_THAT(json, HasSubstr("\"domain\":\"test\",\"name\":\"Scale\""));
  knapper_module_release(module);
  EXPECT_EQ(factor, 0);
  EXPECT_THAT(take(knapper_unregister_operator("test", "Scale")),
              HasSubstr("test.Scale: there is no such operator"));
  op.size = 4;
  EXPECT_THAT(take(knapper_register_operator(&op)), HasSubstr("the size of"));
  EXPECT_THAT(take(knapper_register_operator(nullptr)), HasSubstr("is NULL"));
  op = KNAPPER_OPERATOR_INIT;
  EXPECT_THAT(take(knapper_register_operator(&op)),
              HasSubstr("name the operator"));
}

TEST(OperatorApi, LoadsOperatorsOfASharedObject) {
  EXPECT_THAT(take(knapper_load_operators("/no/file.so")),
              HasSubstr("/no/file.so: cannot be loaded"));
  EXPECT_THAT(take(knapper_load_operators(nullptr)), HasSubstr("NULL"));
  ASSERT_EQ(take(knapper_load_operators(KNAPPER_EXAMPLE_OPERATORS)),
            "no error");
  std::vector<std::byte> bytes = callsOperator("my.domain", "Swish");
  knapper_module *module = nullptr;
  ASSERT_EQ(
      take(knapper_load_memory(bytes.data(), bytes.size(), nullptr, &module)),
      "no error");
  std::vector<float> data{0, 1};
  std::vector<int64_t> shape{2};
  EXPECT_NEAR(secondOf(module, knapper::testing::tensor(data, shape)), 0.731f,
              1e-3f);
  knapper_module_release(module);
  ASSERT_EQ(take(knapper_unregister_operator("my.domain", "Swish")),
            "no error");
}
