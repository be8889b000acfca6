//===- PjrtExecutable.h - Compiled programs -------------------------------===//
#pragma once

#include "capi/pjrt/PjrtBuffer.h"
#include "capi/pjrt/PjrtParts.h"

namespace knapper::pjrt {

struct ArrayInfo {
  Type type;
  knapper_dtype dtype;
  std::vector<int64_t> dims;
  std::vector<int64_t> moduleDims; ///< of complex arrays a last dim of two more
  size_t bytes;
  bool donated = false; ///< an input that the caller gives away
};

/// As the interface asks for them.
struct OpShardings {
  std::vector<std::string> texts;
  std::vector<const char *> data;
  std::vector<size_t> sizes;
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
  /// Of several devices: each runs it, with its parts of the arrays.
  ProgramParts parts;
  /// Of one run, as the interface asks for it; fewer where it is not known.
  std::vector<NamedValue> costs;
  std::atomic<int64_t> lastNanoseconds = -1; ///< of a run; -1: none yet

  // As the interface asks for them.
  std::vector<Type> outputTypes;
  std::vector<int64_t> outputDims; ///< one after the other
  std::vector<size_t> outputRanks;
  OpShardings inputShardings, outputShardings; ///< none of one device
  std::vector<const char *> memoryKinds;
  std::vector<size_t> memoryKindSizes;
};

struct PjrtExecutable {
  std::shared_ptr<CompiledProgram> program;
};

struct LoadedExecutable {
  std::vector<PjrtDevice *> devices; ///< that it runs on, by partition
  std::shared_ptr<CompiledProgram> program;
  std::atomic<bool> deleted = false;
};

/// Takes the module, also when it fails.
PjrtError *makeProgram(knapper_module *module, ProgramParts parts,
                       std::shared_ptr<CompiledProgram> &program);

void setCompileFunctions(PjrtApi &api);
void setExecutableFunctions(PjrtApi &api);
void setExecuteFunctions(PjrtApi &api);
void setLayoutExtension(PjrtApi &api);
void setProfilerExtension(PjrtApi &api);

} // namespace knapper::pjrt
