// PTX that somebody else wrote, among that of a compile.
#pragma once

#include "targets/KernelJob.h"

#include "llvm/ADT/StringRef.h"

namespace knapper {

struct NamedPtx {
  std::pair<unsigned, unsigned> version; ///< of PTX: major, minor
  std::string body; ///< what follows .address_size, without comments
};

/// A given module with its entry under the name of its job and all else that it
/// defines under names of its own, so that modules lie side by side; without
/// line numbers and debug sections. UserError unless it is PTX of 64 bits for
/// `target` whose entry has the parameters of its kernel: 64 bits for each
/// buffer, each symbol, the status and the grid.
Expected<NamedPtx> namedPtx(const KernelJob &job, std::string_view target);

/// The lines that a module for `isa` begins with: `head`, which may be empty,
/// or newer ones where `version` or the isa is newer.
std::string ptxHead(llvm::StringRef head, std::pair<unsigned, unsigned> version,
                    llvm::StringRef isa);

/// Whether PTX for `isa` runs on `target`: the same, or an older one whose name
/// does not end in a letter.
bool runsPtxOf(std::string_view target, std::string_view isa);

} // namespace knapper
