//===- VerifyKernels.h - Every kernel against the reference --------------===//
//
// Compiles the model so that each kernel's results are outputs too, runs it,
// and evaluates the region of each kernel in the reference (float64 inside) on
// the very values that the kernel read. So an error is charged to the kernel
// that made it, not to those after it.
//
// Where a user's kernel may write over its operands (`--kernels`, in_place),
// the model also runs as it is planned, and its results are to be the same.
//
// Slow: the reference computes every element of the model once.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "compiler/pipeline/Compile.h"
#include "ir/tensor/reference/HostTensor.h"

namespace knapper {

/// What came out for one kernel, in the order of launches.
struct KernelCheck {
  std::string origin; ///< the model's nodes that it computes
  std::string hero;   ///< "matmul", "reduce", ...; "plan": see above
  double error = 0;   ///< largest |actual - reference| / largest |reference|
  double bound = 0;   ///< what its dtype allows; 0: equal
  std::string worst;  ///< the worst element, when above the bound
  bool passed() const { return worst.empty(); }
};

/// A kernel as a program of its own, and what it read.
struct Reproducer {
  std::string program;                ///< tensor IR: `main` is the kernel
  std::vector<ts::HostTensor> inputs; ///< weights among them
};

struct VerifyReport {
  std::vector<KernelCheck> kernels;
  /// Of the first that diverges. Nothing for a branch or loop, which is no
  /// kernel, and for what read more than 256 MB.
  std::optional<Reproducer> reproducer;
  /// The first that diverges; null when none does.
  const KernelCheck *firstDivergent() const;
  /// {"kernels": [{"origin", "hero", "error", "bound", "passed", "worst"}],
  ///  "first_divergent": index or null,
  ///  "reproducer": {"program", "inputs": [{"dtype", "shape", "base64"}]} or
  ///  null}
  std::string json() const;
};

/// Loads the artefact behind a descriptor (which it takes over), runs it on the
/// inputs and returns copies of all outputs.
using RunArtefact = std::function<Expected<std::vector<ts::HostTensor>>(
    int fd, const std::vector<ts::HostTensor> &inputs)>;

/// `inputs` in the order of the signature. Errors: those of compiling, of the
/// run, and of the reference (a UserError for inputs that do not fit). A kernel
/// that diverges is no error: see the report.
Expected<VerifyReport> verifyModel(const CompileInput &input,
                                   const Options &options,
                                   const std::vector<ts::HostTensor> &inputs,
                                   const RunArtefact &run);

} // namespace knapper
