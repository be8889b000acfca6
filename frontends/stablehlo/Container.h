//===- Container.h - Counts of MLIR bytecode that its reader believes -----===//
#pragma once

#include "runtime/base/Error.h"
#include <string_view>

namespace knapper {

/// UserError where a count of the file's sections says more than they hold, or
/// a type or an attribute is what MLIR's reader takes unchecked
/// (ContainerEntries.h): it writes as many entries as a group of them claims.
/// `bytes` begin with the bytecode, at an address that its sections' alignments
/// divide.
Status checkHloContainer(std::string_view bytes, const std::string &where);

} // namespace knapper
