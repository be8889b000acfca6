//===- KernelCode.h - The machine code of each kernel of an artefact ------===//
#pragma once

#include "runtime/base/Error.h"

#include <map>
#include <string>

namespace knapper {
class Artefact;
}

namespace knapper::cli {

/// The code of one kernel, in a form that does not depend on where the linker
/// put it and its constants.
struct KernelCode {
  /// x86-64: the instructions, with displacements that leave the function set
  /// to zero, then what those lead to: constants (as much of them as the
  /// instruction reads) or the names of functions. PTX: its text.
  std::string bytes;
  size_t size = 0; ///< of the code itself, in bytes
};

/// Of every kernel: instruction set, kernel's name. UserError when the code
/// cannot be read.
Expected<std::map<std::string, std::map<std::string, KernelCode>>>
kernelCodes(const Artefact &artefact);

} // namespace knapper::cli
