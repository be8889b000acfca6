//===- TextNesting.h - How deep a text in MLIR's syntax is nested ---------===//
#pragma once

#include "runtime/base/Error.h"
#include "llvm/ADT/StringRef.h"

namespace knapper {

/// Refuses a text whose brackets or chains MLIR's parser, which calls itself
/// for each, would run out of stack for. `hint` says what to give instead.
Status checkNesting(llvm::StringRef text, const std::string &where,
                    const std::string &hint);

} // namespace knapper
