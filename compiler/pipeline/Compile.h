//===- Compile.h - From a model to an artefact ----------------------------===//
#pragma once

#include "compiler/options/Options.h"
#include "runtime/base/Cancel.h"
#include "runtime/base/Error.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace knapper {

struct UserKernel;

/// What to compile: a file (.onnx, or .mlir with tensor IR), or bytes, which
/// are ONNX unless the option `model-format` says otherwise.
struct CompileInput {
  std::string path;
  std::string_view bytes;     ///< used when `path` is empty; outlives the call
  Cancel cancel = {};         ///< ends the compile with a UserError
  std::string givenName = {}; ///< of bytes that were made from a file
  /// Of tensor IR: every file that it names, in order. Then the compile of text
  /// may be answered from the cache too.
  std::vector<std::string> dataFiles = {};
  bool namesNoFile = false; ///< tensor IR: likewise
  /// What the file of `--kernels` says (withUserKernels).
  std::shared_ptr<const std::vector<UserKernel>> userKernels = {};

  /// What the artefact says that it was made from.
  std::string name() const {
    return givenName.empty() ? path.substr(path.rfind('/') + 1) : givenName;
  }
};

struct PassTime {
  std::string name;
  double seconds; ///< wall
};

struct PhaseTime {
  std::string name;
  double seconds;                    ///< wall
  std::vector<PassTime> passes = {}; ///< in order
};

/// What a compile did, for people and tests.
struct CompileStats {
  std::vector<PhaseTime> phases;
  unsigned launches = 0, kernels = 0, variants = 0; ///< variants: x isa x guard
  /// Kernels that a tuning record decided, and those whose record asks for what
  /// this version does not offer: they are scheduled without it.
  unsigned recordsUsed = 0, recordsStale = 0;
  double variantCpuSeconds = 0; ///< CPU time of all variants together
  double packSeconds = 0;       ///< evaluating, packing and writing constants
  uint64_t artefactBytes = 0;
  /// Text of the phase asked for by --stop-after.
  std::string stopped;
  bool fromCache = false;
  /// The program depends on what is registered: the shape function of a
  /// registered operator was asked. Such a program is not cached.
  bool externals = false;

  /// {"phases": [{"name", "seconds", "passes"}], "launches", "kernels", ...}
  std::string json() const;
};

/// The input with what the file of `--kernels` says, unless it has it already.
/// Errors: those of readUserKernels.
Expected<CompileInput> withUserKernels(const CompileInput &input,
                                       const Options &options);

using ProgressFn = std::function<void(const char *phase, int done, int total)>;

/// Compiles and writes the artefact to `outputPath` (atomically), or into an
/// anonymous file whose descriptor is returned when `outputPath` is empty; the
/// descriptor is the caller's, -1 when a file was written or --stop-after ended
/// the compile. Thread-safe: calls share nothing. The file of `--kernels` is
/// read once, at the beginning: what is hashed is what is linked.
Expected<int> compileModel(const CompileInput &input, const Options &options,
                           const std::string &outputPath,
                           CompileStats *stats = nullptr,
                           const ProgressFn &progress = {});

} // namespace knapper
