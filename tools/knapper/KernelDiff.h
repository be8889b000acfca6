//===- KernelDiff.h - Which kernels of two artefacts differ ---------------===//
#pragma once

#include "tools/knapper/Session.h"

#include <vector>

namespace knapper::cli {

/// The kernels that compute one thing (one signature) in either artefact.
struct KernelDiff {
  struct Side {
    std::vector<std::string> names, schedules; ///< empty: it has none
    size_t codeBytes = 0; ///< of all of them, of the common instruction sets
  };
  std::string signature, origin; ///< of the first launch that uses it
  Side first, second;
  bool names = false, schedules = false; ///< whether these differ
  std::vector<std::string> code; ///< instruction sets whose code differs
  bool differs() const { return names || schedules || !code.empty(); }
};

struct ArtefactDiff {
  std::vector<KernelDiff> kernels; ///< all, in the order of the signatures
  /// Instruction sets that only one of them has code for.
  std::vector<std::string> firstOnly, secondOnly;
  size_t launches[2] = {0, 0};
  bool order = false; ///< the launches call other kernels, or in another order
};

/// Reads both files again for their code. The modules are theirs, loaded.
Expected<ArtefactDiff> diffKernels(const knapper_module *first,
                                   const std::string &firstPath,
                                   const knapper_module *second,
                                   const std::string &secondPath);

} // namespace knapper::cli
