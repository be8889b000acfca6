// For tests: compiles tile functions from MLIR text and calls them.
#pragma once

#include "runtime/artefact/ElfImage.h"
#include "runtime/base/KernelAbi.h"
#include "targets/cpu/CompileKernels.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/testing/Tiles.h"

#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace knapper {

/// One image of kernels of one instruction set, mapped and callable.
struct TestKernels {
  std::unique_ptr<ElfImage> image;
  std::map<std::string, uint64_t> entries;
  CompileTimes times;
  double linkSeconds = 0;
  alignas(64) char scratch[1 << 16];
  int32_t status = 0;

  void call(const std::string &name, std::vector<void *> buffers,
            std::vector<int64_t> symbols, int64_t begin, int64_t end) {
    KernelContext context{scratch, &status, 0, 1};
    auto fn = reinterpret_cast<KernelFn>(
        const_cast<void *>(image->entry(entries.at(name))));
    ASSERT_NE(fn, nullptr);
    fn(buffers.data(), symbols.data(), &context, begin, end);
  }
};

/// Whether this machine runs code of `isa`.
inline bool runsHere(std::string_view isa) {
  // In software, where the processor has none.
  if (isa == "x86-64-v4-amx")
    return tiles::enable();
  if (isa == "x86-64-v4-bf16")
    return runsHere("x86-64-v4-vnni") && __builtin_cpu_supports("avx512bf16");
  if (isa == "x86-64-v4-vnni")
    return __builtin_cpu_supports("x86-64-v4") &&
           __builtin_cpu_supports("avx512vnni");
  if (isa == "x86-64-v4")
    return __builtin_cpu_supports("x86-64-v4");
  return __builtin_cpu_supports("x86-64-v3");
}

/// "v4_vnni": a test's name may not have more.
inline std::string
isaTestName(const testing::TestParamInfo<std::string_view> &info) {
  std::string name(info.param.substr(7));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// A module of one or more tile.func ops; `first` names one of them.
inline Expected<std::unique_ptr<TestKernels>>
compileText(const std::string &text, const std::string &first,
            std::string_view isa) {
  ASSIGN_OR_RETURN(auto target, cpuTarget(isa));
  KernelJob job{first, [&](mlir::MLIRContext &context, const TargetDesc &) {
                  return mlir::parseSourceString<mlir::ModuleOp>(text,
                                                                 &context);
                }};
  auto images = compileKernels({&job, 1}, {&target, 1}, 1);
  if (!images)
    return images.takeError();
  CompiledImage &compiled = images->front();
  ASSIGN_OR_RETURN(auto loaded,
                   ElfImage::load(std::as_bytes(std::span(compiled.image.code)),
                                  "test image"));
  auto kernels = std::make_unique<TestKernels>();
  kernels->image = std::move(loaded);
  kernels->entries = compiled.image.entries;
  kernels->times = compiled.times;
  kernels->linkSeconds = compiled.linkSeconds;
  return kernels;
}

} // namespace knapper
