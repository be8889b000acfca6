// Targets as the pipeline sees them: found by name, complete, and a whole
// compile for the target that emits nothing, loaded and run by its driver.
#include "compiler/pipeline/Compile.h"
#include "runtime/artefact/Artefact.h"
#include "runtime/drivers/null/NullDevice.h"
#include "runtime/execute/Module.h"
#include "targets/Target.h"

#include <gmock/gmock.h>
#include <unistd.h>

using namespace knapper;
using ::testing::HasSubstr;

namespace {

constexpr const char *kProgram =
    "func.func @main(%x: tensor<4x64xf32>) -> tensor<4xf32> {\n"
    "  %0 = ts.exp %x : tensor<4x64xf32>\n"
    "  %1 = ts.reduce add %0 [1] : tensor<4x64xf32>\n"
    "  return %1 : tensor<4xf32>\n}\n";

Options optionsFor(const char *target) {
  Options options;
  options.target = target;
  options.modelFormat = "mlir";
  options.cache = false;
  return options;
}

Expected<int> compileFor(const char *target) {
  CompileInput input;
  input.bytes = kProgram;
  return compileModel(input, optionsFor(target), "");
}

TEST(Targets, HaveNamesOfTheirOwnAndWhatTheModelsDivideBy) {
  for (const Target *target : allTargets()) {
    EXPECT_EQ(findTarget(target->name()), target);
    Expected<std::vector<TargetDesc>> described = target->describe({});
    ASSERT_TRUE(described) << described.error().message();
    ASSERT_FALSE(described->empty());
    for (const TargetDesc &t : *described) {
      EXPECT_FALSE(t.isa.empty());
      EXPECT_GT(t.vectorBytes, 0u);
      EXPECT_GT(t.vectorRegisters, 0u);
      EXPECT_GT(t.fmaFlops, 0);
      EXPECT_GT(t.copyBandwidth, 0);
      EXPECT_GT(t.cacheBandwidth, 0);
      EXPECT_GT(t.l1Bytes, 0);
      EXPECT_GT(t.cores, 0u);
      EXPECT_GT(t.keptBytes, 0);
      EXPECT_GT(t.streamBytes, 0);
      EXPECT_GT(t.launchSeconds, 0);
      EXPECT_FALSE(target->tuningKey(t).empty());
    }
  }
  EXPECT_EQ(findTarget("tpu"), nullptr);
}

TEST(Targets, NoTwoHaveOneName) {
  EXPECT_TRUE(checkTargets(allTargets()));
  const Target *all[] = {findTarget("cpu"), findTarget("null"),
                         findTarget("cpu")};
  Status status = checkTargets(all);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::internal);
  EXPECT_THAT(status.error().message(),
              HasSubstr("two targets have the name 'cpu'"));
}

TEST(Targets, ProgramsForAllCoresAreTheNearestPowerOfTwo) {
  for (auto [cores, programs] : {std::pair(1u, 1),
                                 {2, 2},
                                 {3, 4},
                                 {82, 64},
                                 {108, 128},
                                 {132, 128},
                                 {142, 128}}) {
    config::Machine machine;
    machine.cores = cores;
    EXPECT_EQ(machine.programsForAll(), programs) << cores;
  }
}

TEST(Targets, WhatThereIsNotIsNamed) {
  for (auto [target, said] : {std::pair("tpu", "there is no target 'tpu'"),
                              {"null:fast", "no variant 'fast'"},
                              {"cuda:sm_10", "unknown GPU 'sm_10'"}}) {
    Expected<int> made = compileFor(target);
    ASSERT_FALSE(made) << target;
    EXPECT_EQ(made.error().kind, ErrorKind::user);
    EXPECT_THAT(made.error().message(), HasSubstr(said));
  }
}

TEST(Targets, AnInstructionSetIsGivenOnce) {
  TargetRequest request;
  request.isas = {"x86-64-v3", "x86-64-v4", "x86-64-v3"};
  Expected<std::vector<TargetDesc>> made = findTarget("cpu")->describe(request);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::user);
  EXPECT_THAT(made.error().message(), HasSubstr("'x86-64-v3' is given twice"));
}

TEST(Targets, TheNullTargetRunsFromModelToLaunches) {
  Expected<int> made = compileFor("null");
  ASSERT_TRUE(made) << made.error().message();
  auto artefact = Artefact::loadFd(*made, "memory");
  close(*made);
  ASSERT_TRUE(artefact) << artefact.error().message();
  auto module = Module::load(std::move(*artefact), null::device(), {});
  ASSERT_TRUE(module) << module.error().message();
  std::vector<float> x(4 * 64, 1), y(4, -7);
  int64_t inShape[] = {4, 64}, outShape[] = {4};
  knapper_tensor in{x.data(), x.size() * 4, KNAPPER_F32, 2, inShape},
      out{y.data(), y.size() * 4, KNAPPER_F32, 1, outShape};
  RunResult result;
  Status run = (*module)->run({&in, 1}, {&out, 1}, result);
  EXPECT_TRUE(run) << run.error().message();
  EXPECT_EQ(y[0], -7); // its kernels compute nothing
}

} // namespace
