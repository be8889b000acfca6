//===- PjrtExecutable.h - Compiled programs -------------------------------===//
#pragma once

#include "capi/pjrt/PjrtBuffer.h"

namespace knapper::pjrt {

struct ArrayInfo {
  Type type;
  knapper_dtype dtype;
  std::vector<int64_t> dims;
  std::vector<int64_t> moduleDims; ///< of complex arrays a last dim of two more
  size_t bytes;
  bool donated = false; ///< an input that the caller gives away
};

/// A compiled program; what executables share. Runs from any thread.
struct CompiledProgram {
  ~CompiledProgram();

  knapper_module *module = nullptr;
  std::vector<ArrayInfo> inputs, outputs;
  /// By output: the donated input whose memory it may take, or -1.
  std::vector<int32_t> replaces;
  /// Whether runs call functions of the process, which may want locks that
  /// whoever waits for them holds.
  bool callsBack = false;
  std::atomic<int64_t> lastNanoseconds = -1; ///< of a run; -1: none yet

  // As the interface asks for them.
  std::vector<Type> outputTypes;
  std::vector<int64_t> outputDims; ///< one after the other
  std::vector<size_t> outputRanks;
  std::vector<const char *> memoryKinds;
  std::vector<size_t> memoryKindSizes;
};

struct PjrtExecutable {
  std::shared_ptr<CompiledProgram> program;
  int device; ///< id of the one that it was compiled for
};

struct LoadedExecutable {
  PjrtDevice *device; ///< that it runs on
  std::shared_ptr<CompiledProgram> program;
  std::atomic<bool> deleted = false;
};

/// Takes the module, also when it fails.
PjrtError *makeProgram(knapper_module *module,
                       std::shared_ptr<CompiledProgram> &program);

void setCompileFunctions(PjrtApi &api);
void setExecutableFunctions(PjrtApi &api);
void setExecuteFunctions(PjrtApi &api);
void setLayoutExtension(PjrtApi &api);
void setProfilerExtension(PjrtApi &api);

} // namespace knapper::pjrt
