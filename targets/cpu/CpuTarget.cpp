#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/CpuMachine.h"

namespace knapper {

static constexpr std::string_view kIsas[] = {"x86-64-v4-amx", "x86-64-v4-bf16",
                                             "x86-64-v4-vnni", "x86-64-v4",
                                             "x86-64-v3"};

std::span<const std::string_view> cpuIsas() { return kIsas; }

Expected<TargetDesc> cpuTarget(std::string_view isa) {
  TargetDesc t;
  static_cast<config::Machine &>(t) = cpuMachine(isa == "x86-64-v3" ? 32 : 64);
  t.isa = isa;
  if (isa == "x86-64-v4" || isa == "x86-64-v4-vnni" ||
      isa == "x86-64-v4-bf16" || isa == "x86-64-v4-amx") {
    t.vectorBytes = 64;
    t.vectorRegisters = 32;
    t.maskedAccess = true;
    t.wordTable = true;
    t.powerScale = true;
    if (isa != "x86-64-v4") {
      // Every processor that has matmuls of bf16 has those of bytes.
      t.byteDots = true;
      t.tileMatmuls = isa == "x86-64-v4-amx";
      t.pairDots = t.tileMatmuls || isa == "x86-64-v4-bf16";
      t.extends = "x86-64-v4";
      t.extendsGroups = t.tileMatmuls ? 2 + 4 + kSplitGroup
                        : t.pairDots  ? 2
                                      : 4;
      t.splitCacheBytes = t.tileMatmuls ? kAmxCacheBytes : 0;
    }
  } else if (isa == "x86-64-v3") {
    t.vectorBytes = 32;
    t.vectorRegisters = 16;
  } else {
    std::string names;
    for (std::string_view known : kIsas)
      names += (names.empty() ? "" : ", ") + std::string(known);
    return userError("unknown instruction set '" + std::string(isa) + "'", "",
                     "one of " + names);
  }
  return t;
}

} // namespace knapper
