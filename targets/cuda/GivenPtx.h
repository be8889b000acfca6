// PTX that somebody else wrote, among that of a compile.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

struct NamedPtx {
  std::pair<unsigned, unsigned> version; ///< of PTX: major, minor
  std::string body; ///< what follows .address_size, without comments
};

/// A given module with its entry under the name of its job. UserError unless it
/// is PTX of 64 bits whose entry has the parameters of its kernel: an address
/// for each buffer, then 64 bits for each symbol, the status's address and the
/// grid.
Expected<NamedPtx> namedPtx(const KernelJob &job);

/// The lines that a module begins with: `head`, which may be empty, or newer
/// ones where `version` is.
std::string ptxHead(llvm::StringRef head, std::pair<unsigned, unsigned> version,
                    llvm::StringRef isa);

/// Whether PTX for `isa` runs on `target`: the same, or an older one whose name
/// does not end in a letter.
bool runsPtxOf(std::string_view target, std::string_view isa);

} // namespace knapper
