#include "runtime/drivers/cpu/CpuInfo.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace knapper::cpu;

namespace {

constexpr IsaLevel kLevels[] = {IsaLevel::v3, IsaLevel::v4, IsaLevel::v4Vnni,
                                IsaLevel::v4Bf16, IsaLevel::v4Amx};
constexpr std::string_view kIsas[] = {"x86-64-v3", "x86-64-v4",
                                      "x86-64-v4-vnni", "x86-64-v4-bf16",
                                      "x86-64-v4-amx"};

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
  EXPECT_EQ(isaRank("x86-64-v5", IsaLevel::v4Amx), 0);
}

TEST(CpuInfo, NamesWhatALevelRuns) {
  EXPECT_EQ(runnableIsas(IsaLevel::belowV3), "");
  EXPECT_EQ(runnableIsas(IsaLevel::v3), "x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4), "x86-64-v4, x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4Vnni),
            "x86-64-v4-vnni, x86-64-v4, x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4Bf16),
            "x86-64-v4-bf16, x86-64-v4-vnni, x86-64-v4, x86-64-v3");
  EXPECT_EQ(runnableIsas(IsaLevel::v4Amx),
            "x86-64-v4-amx, " + runnableIsas(IsaLevel::v4Bf16));
}

// The kernel lists what the processor has and it uses itself.
TEST(CpuInfo, TileRegistersAreThoseOfTheProcessor) {
  std::ifstream file("/proc/cpuinfo");
  std::string text(std::istreambuf_iterator<char>(file), {});
  bool listed = text.find(" amx_tile") != std::string::npos &&
                text.find(" amx_bf16") != std::string::npos &&
                text.find(" amx_int8") != std::string::npos;
  EXPECT_EQ(tileRegisters() != TileRegisters::absent, listed);
  EXPECT_EQ(tileRefusal().empty(), tileRegisters() != TileRegisters::refused);
  EXPECT_EQ(machineLevel() == IsaLevel::v4Amx,
            tileRegisters() == TileRegisters::granted);
}

} // namespace
