// Which of a kernel's codes a module takes, by the machine and by request.

#include "runtime/testing/TestArtefact.h"

#include "runtime/drivers/cpu/CpuDevice.h"
#include "runtime/drivers/cpu/CpuInfo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace knapper;
using namespace knapper::testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ModuleCode, ChoosesTheBestCodeThatRunsHere) {
  TestArtefact a({"x86-64-v3", "x86-64-v4"});
  uint32_t one = a.constant(1);
  uint32_t y = a.output("y", DType::i32, {});
  uint32_t main = a.region();
  a.launch(main, "level", {y}, one);
  auto level = [&](const std::string &isa) -> std::string {
    auto m = loadBytes(a.bytes(), {.isa = isa});
    if (!m)
      return m.error().message();
    RunResult result;
    Status s = (*m)->run({}, {}, result);
    EXPECT_TRUE(s) << s.error().message();
    return std::to_string(*static_cast<int *>(result.outputs()[0].data));
  };
  bool v4 = cpu::isaRank("x86-64-v4") > 0;
  EXPECT_EQ(level(""), v4 ? "4" : "3");
  EXPECT_EQ(level("x86-64-v3"), "3");
  if (v4)
    EXPECT_EQ(level("x86-64-v4"), "4");
  else
    EXPECT_THAT(level("x86-64-v4"), HasSubstr("this machine runs x86-64-v3"));
  EXPECT_THAT(level("sm_90a"),
              HasSubstr("cannot use code for 'sm_90a': the artefact has "
                        "x86-64-v3, x86-64-v4"));
}

TEST(ModuleCode, SaysWhatAnOlderProcessorCannotRun) {
  TestArtefact a({"x86-64-v3", "x86-64-v4"});
  uint32_t y = a.output("y", DType::i32, {});
  a.launch(a.region(), "level", {y}, a.constant(1));
  auto load = [&](cpu::IsaLevel level, const std::string &isa) {
    return loadBytes(a.bytes(), {.isa = isa}, cpu::deviceUpTo(level));
  };
  auto m = load(cpu::IsaLevel::belowV3, "");
  ASSERT_FALSE(m);
  EXPECT_EQ(m.error().kind, ErrorKind::user);
  EXPECT_THAT(m.error().message(),
              AllOf(HasSubstr("the artefact has code for x86-64-v3, x86-64-v4"),
                    HasSubstr("this processor is below x86-64-v3"),
                    HasSubstr("use a newer one")));
  auto named = load(cpu::IsaLevel::belowV3, "x86-64-v3");
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().kind, ErrorKind::user);
  EXPECT_THAT(named.error().message(), HasSubstr("this machine runs none"));
  // Without AVX-512 the other code is taken.
  auto v3 = load(cpu::IsaLevel::v3, "");
  ASSERT_TRUE(v3) << v3.error().message();
  EXPECT_EQ((*v3)->isa(), "x86-64-v3");
  RunResult result;
  Status s = (*v3)->run({}, {}, result);
  ASSERT_TRUE(s) << s.error().message();
  EXPECT_EQ(*static_cast<int *>(result.outputs()[0].data), 3);
  auto v4 = load(cpu::IsaLevel::v3, "x86-64-v4");
  ASSERT_FALSE(v4);
  EXPECT_THAT(v4.error().message(), HasSubstr("this machine runs x86-64-v3"));
}

TEST(ModuleCode, ProcessorsTakeTheBestLevelThatTheyRun) {
  std::vector<std::string> isas = {"x86-64-v4", "x86-64-v4-amx",
                                   "x86-64-v4-bf16", "x86-64-v4-vnni"};
  if (!cpu::isaRank(isas[0]))
    GTEST_SKIP() << "this machine does not run " << isas[0];
  TestArtefact a(isas);
  uint32_t y = a.output("y", DType::i32, {});
  a.launch(a.region(), "level", {y}, a.constant(1));
  auto taken = [&](cpu::IsaLevel level) {
    auto m = loadBytes(a.bytes(), {}, cpu::deviceUpTo(level));
    return m ? (*m)->isa() : m.error().message();
  };
  EXPECT_EQ(taken(cpu::IsaLevel::v4), "x86-64-v4");
  EXPECT_THAT(taken(cpu::IsaLevel::v3), HasSubstr("x86-64-v3"));
  if (cpu::isaRank("x86-64-v4-vnni"))
    EXPECT_EQ(taken(cpu::IsaLevel::v4Vnni), "x86-64-v4-vnni");
  if (cpu::isaRank("x86-64-v4-bf16"))
    EXPECT_EQ(taken(cpu::IsaLevel::v4Bf16), "x86-64-v4-bf16");
  // With tile registers or without: the best that the machine runs.
  std::string best = cpu::runnableIsas();
  EXPECT_EQ(taken(cpu::IsaLevel::v4Amx), best.substr(0, best.find(',')));
  auto named = loadBytes(a.bytes(), {.isa = "x86-64-v4-bf16"},
                         cpu::deviceUpTo(cpu::IsaLevel::v4));
  ASSERT_FALSE(named);
  EXPECT_THAT(named.error().message(),
              HasSubstr("this machine runs x86-64-v4, x86-64-v3"));
}
