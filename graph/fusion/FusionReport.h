//===- FusionReport.h - What was fused, and why the rest was not ----------===//
#pragma once

#include <string>
#include <vector>

namespace knapper::fusion {

struct FusionReport {
  struct Kernel {
    std::string function, hero;
    std::vector<std::string> ops;     ///< "add", "dot", ... in order
    std::vector<std::string> origins; ///< the user's nodes, each once
    double seconds = 0;               ///< modelled, at representative sizes
  };
  /// A tensor that one kernel writes and another reads.
  struct Boundary {
    unsigned producer = 0, consumer = 0; ///< indices into kernels
    std::string reason;                  ///< why they are not one kernel
    /// Modelled, had they been one; negative: lost. Zero where they are too
    /// large to be one, whatever they are.
    double secondsSaved = 0;
  };
  std::vector<Kernel> kernels; ///< in the order of launches
  std::vector<Boundary> boundaries;

  /// {"kernels": [..], "boundaries": [..]} with the names above.
  std::string json() const;
};

} // namespace knapper::fusion
