// Runs by the C API: asynchronous ones, given outputs, checks, profiles,
// memory.
#include "capi/testing/ScaleModule.h"
#include "knapper/knapper.h"

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

using ::testing::HasSubstr;
using namespace knapper::testing;

TEST(RunApi, RunsAsynchronously) {
  LoadedScale m;
  std::vector<Input> inputs;
  std::vector<knapper_event *> events(8);
  for (int i = 0; i < 8; ++i)
    inputs.emplace_back(i + 1);
  for (int i = 0; i < 8; ++i)
    ASSERT_EQ(take(knapper_run_async(m.module, &inputs[i].tensor, 1, nullptr, 0,
                                     &events[i])),
              "no error");
  for (int i = 0; i < 8; ++i) {
    knapper_result *result = nullptr;
    ASSERT_EQ(take(knapper_event_wait(events[i], &result)), "no error");
    knapper_tensor y;
    ASSERT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
    EXPECT_EQ(y.shape[0], i + 1);
    EXPECT_EQ(static_cast<float *>(y.data)[0], 7.0f);
    knapper_result_release(result);
  }
  // The error of the run comes out of the wait.
  Input bad(2);
  bad.tensor.dtype = KNAPPER_I8;
  knapper_event *event = nullptr;
  ASSERT_EQ(
      take(knapper_run_async(m.module, &bad.tensor, 1, nullptr, 0, &event)),
      "no error");
  EXPECT_EQ(knapper_event_wait_for(event, INT64_MAX), 1);
  EXPECT_EQ(knapper_event_wait_for(event, -1), 1);
  EXPECT_EQ(knapper_event_done(event), 1);
  knapper_result *result = nullptr;
  EXPECT_THAT(take(knapper_event_wait(event, &result)),
              HasSubstr("input 'x': expected f32[n, 4], got i8[2, 4]"));
  EXPECT_EQ(result, nullptr);
}

TEST(RunApi, AnAsynchronousRunKeepsTheShapesOfItsInputs) {
  LoadedScale m;
  std::vector<Input> inputs;
  std::vector<knapper_event *> events(64);
  for (size_t i = 0; i < events.size(); ++i)
    inputs.emplace_back(3);
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_EQ(take(knapper_run_async(m.module, &inputs[i].tensor, 1, nullptr, 0,
                                     &events[i])),
              "no error");
    inputs[i].shape.assign({1, 4}); // the caller's again
  }
  for (knapper_event *event : events) {
    knapper_result *result = nullptr;
    ASSERT_EQ(take(knapper_event_wait(event, &result)), "no error");
    knapper_tensor y;
    ASSERT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
    EXPECT_EQ(y.shape[0], 3);
    knapper_result_release(result);
  }
}

TEST(RunApi, GivenOutputsHaveTheOutputsShape) {
  LoadedScale m;
  Input x(2);
  std::vector<float> memory(16, -7.0f);
  std::vector<int64_t> swapped = {4, 2}, larger = {4, 4};
  knapper_result *result = nullptr;
  auto wrong = [&](knapper_error *error) {
    EXPECT_NE(error, nullptr);
    EXPECT_EQ(knapper_error_get_kind(error), KNAPPER_ERROR_USER);
    EXPECT_THAT(take(error),
                HasSubstr("output 'y': the output is f32[2, 4], the memory "
                          "given for it is f32[4, "));
  };
  for (std::vector<int64_t> &shape : {std::ref(swapped), std::ref(larger)}) {
    knapper_tensor y = knapper::testing::tensor(memory, shape);
    wrong(knapper_run(m.module, &x.tensor, 1, &y, 1, &result));
    knapper_event *event = nullptr;
    ASSERT_EQ(take(knapper_run_async(m.module, &x.tensor, 1, &y, 1, &event)),
              "no error");
    wrong(knapper_event_wait(event, &result));
    EXPECT_THAT(memory, ::testing::Each(-7.0f));
  }
  knapper_tensor flat = {memory.data(), 64, KNAPPER_F32, KNAPPER_FLAT, nullptr};
  ASSERT_EQ(take(knapper_run(m.module, &x.tensor, 1, &flat, 1, &result)),
            "no error");
  knapper_tensor y;
  ASSERT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
  EXPECT_EQ(y.data, memory.data());
  ASSERT_EQ(y.rank, 2);
  EXPECT_EQ(y.shape[0], 2);
  EXPECT_EQ(memory[7], 7.0f);
  EXPECT_EQ(memory[8], -7.0f);
  knapper_result_release(result);
}

TEST(RunApi, ACheckComputesNothing) {
  LoadedScale m;
  Input x(3);
  knapper_run_options options = KNAPPER_RUN_OPTIONS_INIT;
  options.check_only = 1;
  knapper_result *result = nullptr;
  ASSERT_EQ(take(knapper_run_with(m.module, &x.tensor, 1, nullptr, 0, &options,
                                  &result)),
            "no error");
  knapper_tensor y;
  ASSERT_EQ(take(knapper_result_output(result, 0, &y)), "no error");
  EXPECT_EQ(y.data, nullptr);
  EXPECT_EQ(y.bytes, 48u);
  EXPECT_EQ(y.shape[0], 3);
  knapper_result_release(result);
  std::vector<float> memory(12, -7.0f);
  y = knapper::testing::tensor(memory, x.shape);
  for (int run = 0; run < 3; ++run) { // also after a run of the same
    ASSERT_EQ(take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options,
                                    &result)),
              "no error");
    EXPECT_THAT(memory, ::testing::Each(-7.0f));
    knapper_result_release(result);
    ASSERT_EQ(take(knapper_run(m.module, &x.tensor, 1, &y, 1, &result)),
              "no error");
    EXPECT_THAT(memory, ::testing::Each(7.0f));
    knapper_result_release(result);
    std::fill(memory.begin(), memory.end(), -7.0f);
  }
  y.bytes = 47;
  EXPECT_THAT(
      take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options, &result)),
      HasSubstr("takes 48 bytes, 47 were given"));
  options.check_only = 2;
  EXPECT_THAT(
      take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options, &result)),
      HasSubstr("check_only is 2"));
}

TEST(RunApi, ARunTellsWhatItsLaunchesTook) {
  LoadedScale m;
  Input x(3);
  std::vector<float> memory(12, -7.0f);
  knapper_tensor y = knapper::testing::tensor(memory, x.shape);
  char *profile = nullptr;
  knapper_run_options options = KNAPPER_RUN_OPTIONS_INIT;
  options.profile = &profile;
  knapper_result *result = nullptr;
  ASSERT_EQ(
      take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options, &result)),
      "no error");
  EXPECT_THAT(memory, ::testing::Each(7.0f));
  EXPECT_THAT(std::string(profile), HasSubstr("\"launches\""));
  EXPECT_THAT(std::string(profile), HasSubstr("\"events\":[{\"launch\""));
  knapper_string_release(profile);
  knapper_result_release(result);
  options.check_only = 1;
  EXPECT_THAT(
      take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options, &result)),
      HasSubstr("profile is asked for with check_only or in_stream"));
  options.check_only = 0;
  options.in_stream = 1;
  EXPECT_THAT(
      take(knapper_run_with(m.module, &x.tensor, 1, &y, 1, &options, &result)),
      HasSubstr("profile is asked for with check_only or in_stream"));
  EXPECT_EQ(profile, nullptr);
}

TEST(RunApi, PeakMemoryNeedsEverySize) {
  LoadedScale m;
  uint64_t arena = 0, constants = 1;
  const char *names[] = {"n", "m"};
  int64_t values[] = {100, 1};
  ASSERT_EQ(take(knapper_module_peak_memory(m.module, names, values, 1, &arena,
                                            &constants)),
            "no error");
  EXPECT_EQ(arena, 100 * 4 * 4u);
  EXPECT_EQ(constants, 0u);
  EXPECT_THAT(take(knapper_module_peak_memory(m.module, names, values, 2,
                                              &arena, &constants)),
              HasSubstr("no size 'm'"));
  EXPECT_THAT(take(knapper_module_peak_memory(m.module, names, values, 0,
                                              &arena, &constants)),
              HasSubstr("no value is given for: n"));
  values[0] = 0;
  EXPECT_THAT(take(knapper_module_peak_memory(m.module, names, values, 1,
                                              &arena, &constants)),
              HasSubstr("size 'n' is 0"));
}

TEST(RunApi, DescribesAndProfiles) {
  LoadedScale m;
  const char *json = nullptr, *again = nullptr;
  ASSERT_EQ(take(knapper_module_describe(m.module, &json)), "no error");
  EXPECT_THAT(json, HasSubstr(R"("inputs":[{"name":"x","dtype":"f32",)"
                              R"("shape":["n",4]}])"));
  EXPECT_THAT(json, HasSubstr(R"("launches":[{"origin":"scale_node",)"
                              R"("flops":"n*4")"));
  ASSERT_EQ(take(knapper_module_describe(m.module, &again)), "no error");
  EXPECT_EQ(json, again);
  Input x(3);
  char *profile = nullptr;
  ASSERT_EQ(take(knapper_profile(m.module, &x.tensor, 1, &profile)),
            "no error");
  EXPECT_THAT(profile,
              HasSubstr(R"({"launches":[{"kernel":"scale","origin":)"
                        R"("scale_node","schedule":"test","executions":1)"));
  EXPECT_THAT(profile, HasSubstr(R"("flops":12,"bytes":0)"));
  EXPECT_THAT(profile, HasSubstr(R"("index":0)"));
  EXPECT_THAT(profile, HasSubstr(R"("sizes":{"n":3})"));
  knapper_string_release(profile);
}
