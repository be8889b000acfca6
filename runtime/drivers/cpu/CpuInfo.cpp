#include "runtime/drivers/cpu/CpuInfo.h"

#include <algorithm>
#include <cerrno>
#include <cpuid.h>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace knapper::cpu {
namespace {

bool hasV3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("popcnt") &&
         __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe");
}
bool hasV4() {
  return hasV3() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

/// Whether the processor has tiles with matmuls of bf16 and bytes, and the
/// system saves them when it switches threads.
bool hasTiles() {
  unsigned a, b, c, d;
  constexpr unsigned osxsave = 1u << 27;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & osxsave))
    return false;
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tileState = 3u << 17; // configuration and data
  if ((low & tileState) != tileState)
    return false;
  constexpr unsigned matmuls = 1u << 22 | 1u << 24 | 1u << 25;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & matmuls) == matmuls;
}

struct Asked {
  TileRegisters state = TileRegisters::absent;
  int error = 0;
};

Asked askForTiles() {
  if (!hasTiles())
    return {};
  constexpr long requestPermission = 0x1023, tileData = 18;
  if (syscall(SYS_arch_prctl, requestPermission, tileData) != 0)
    return {TileRegisters::refused, errno};
  return {TileRegisters::granted};
}

const Asked &askedOnce() {
  static const Asked asked = askForTiles();
  return asked;
}

/// Processors that the control group's quota is worth; 0 if it sets none.
int quotaCores() {
  long long quota = -1, period = 0;
  auto read = [](const char *path, const char *format, auto... to) {
    FILE *file = fopen(path, "re");
    if (!file)
      return false;
    bool good = fscanf(file, format, to...) == int(sizeof...(to));
    fclose(file);
    return good;
  };
  // Version 2 of control groups ("max" if there is no quota), else version 1.
  if (!read("/sys/fs/cgroup/cpu.max", "%lld %lld", &quota, &period) &&
      !(read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "%lld", &quota) &&
        read("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "%lld", &period)))
    return 0;
  if (quota <= 0 || period <= 0)
    return 0;
  return static_cast<int>(
      std::min<long long>((quota + period - 1) / period, 1 << 16));
}

} // namespace

IsaLevel machineLevel() {
  if (!hasV4())
    return hasV3() ? IsaLevel::v3 : IsaLevel::belowV3;
  if (!__builtin_cpu_supports("avx512vnni"))
    return IsaLevel::v4;
  if (!__builtin_cpu_supports("avx512bf16"))
    return IsaLevel::v4Vnni;
  return tileRegisters() == TileRegisters::granted ? IsaLevel::v4Amx
                                                   : IsaLevel::v4Bf16;
}

TileRegisters tileRegisters() { return askedOnce().state; }

std::string tileRefusal() {
  return tileRegisters() == TileRegisters::refused
             ? std::error_code(askedOnce().error, std::generic_category())
                   .message()
             : "";
}

int isaRank(std::string_view isa, IsaLevel level) {
  if (isa == "x86-64-v4-amx")
    return level >= IsaLevel::v4Amx ? 5 : 0;
  if (isa == "x86-64-v4-bf16")
    return level >= IsaLevel::v4Bf16 ? 4 : 0;
  if (isa == "x86-64-v4-vnni")
    return level >= IsaLevel::v4Vnni ? 3 : 0;
  if (isa == "x86-64-v4")
    return level >= IsaLevel::v4 ? 2 : 0;
  if (isa == "x86-64-v3")
    return level >= IsaLevel::v3 ? 1 : 0;
  return 0;
}

std::string runnableIsas(IsaLevel level) {
  if (level >= IsaLevel::v4Amx)
    return "x86-64-v4-amx, x86-64-v4-bf16, x86-64-v4-vnni, x86-64-v4, "
           "x86-64-v3";
  if (level >= IsaLevel::v4Bf16)
    return "x86-64-v4-bf16, x86-64-v4-vnni, x86-64-v4, x86-64-v3";
  if (level >= IsaLevel::v4Vnni)
    return "x86-64-v4-vnni, x86-64-v4, x86-64-v3";
  if (level >= IsaLevel::v4)
    return "x86-64-v4, x86-64-v3";
  return level >= IsaLevel::v3 ? "x86-64-v3" : "";
}

std::string processorName() {
  unsigned brand[12];
  if (__get_cpuid_max(0x80000000, nullptr) < 0x80000004)
    return "unknown processor";
  for (unsigned i = 0; i < 3; ++i)
    __get_cpuid(0x80000002 + i, &brand[4 * i], &brand[4 * i + 1],
                &brand[4 * i + 2], &brand[4 * i + 3]);
  char name[sizeof brand + 1] = {};
  memcpy(name, brand, sizeof brand);
  std::string text = name;
  size_t first = text.find_first_not_of(' ');
  size_t last = text.find_last_not_of(' ');
  return first == std::string::npos ? "unknown processor"
                                    : text.substr(first, last - first + 1);
}

int availableCores() {
  int cores = 1;
  // The mask's size follows the kernel's number of processors.
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    cpu_set_t *set = CPU_ALLOC(size);
    if (!set)
      break;
    int rc = sched_getaffinity(0, CPU_ALLOC_SIZE(size), set);
    if (rc == 0)
      cores = CPU_COUNT_S(CPU_ALLOC_SIZE(size), set);
    CPU_FREE(set);
    if (rc == 0)
      break;
  }
  int quota = quotaCores();
  return std::max(1, quota > 0 ? std::min(cores, quota) : cores);
}

} // namespace knapper::cpu
