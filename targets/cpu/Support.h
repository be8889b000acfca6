// The few functions that LLVM may call on its own.
#pragma once

namespace llvm {
class Module;
}

namespace knapper {

/// Adds memcpy, memmove and memset, hidden; the link drops those that
/// nobody calls.
void addSupportFunctions(llvm::Module &module);

} // namespace knapper
