//===- Container.h - Counts of MLIR bytecode that its reader believes -----===//
#pragma once

#include "runtime/base/Error.h"
#include <string_view>

namespace knapper {

/// UserError where a count of the file's sections says more than they hold:
/// MLIR's reader writes as many entries as a group of types or attributes
/// claims. `bytes` begin with the bytecode, at an address that its sections'
/// alignments divide.
Status checkHloContainer(std::string_view bytes, const std::string &where);

} // namespace knapper
