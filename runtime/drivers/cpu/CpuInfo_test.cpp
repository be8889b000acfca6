#include "runtime/drivers/cpu/CpuInfo.h"

#include <gtest/gtest.h>

using namespace knapper::cpu;

namespace {

constexpr IsaLevel kLevels[] = {IsaLevel::v3, IsaLevel::v4, IsaLevel::v4Vnni,
                                IsaLevel::v4Bf16};
constexpr std::string_view kIsas[] = {"x86-64-v3", "x86-64-v4",
                                      "x86-64-v4-vnni", "x86-64-v4-bf16"};

TEST(CpuInfo, ALevelRunsItselfAndAllBelow) {
  for (size_t level = 0; level < std::size(kLevels); ++level)
    for (size_t isa = 0; isa < std::size(kIsas); ++isa) {
      int rank = isaRank(kIsas[isa], kLevels[level]);
      EXPECT_EQ(rank > 0, isa <= level) << kIsas[isa];
      if (isa && rank) {
        EXPECT_GT(rank, isaRank(kIsas[isa - 1], kLevels[level]));
      }
    }
  for (std::string_view isa : kIsas)
    EXPECT_EQ(isaRank(isa, IsaLevel::belowV3), 0);
  EXPECT_EQ(isaRank("x86-64-v5", IsaLevel::v4Bf16), 0);
}

TEST(CpuInfo, NamesWhatALevelRuns) {
  EXPECT_EQ(runnableIsas(IsaLevel::belowV3), "");
  EXPECT_EQ(runnableIsas(IsaLevel::v3), "x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4), "x86-64-v4, x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4Vnni),
            "x86-64-v4-vnni, x86-64-v4, x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4Bf16),
            "x86-64-v4-bf16, x86-64-v4-vnni, x86-64-v4, x86-64-v3");
}

} // namespace
