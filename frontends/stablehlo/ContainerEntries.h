//===- ContainerEntries.h - Types and attributes of MLIR bytecode ---------===//
#pragma once

#include "frontends/stablehlo/ContainerCursor.h"

#include <string>
#include <vector>

namespace knapper {

/// A type or an attribute as its file has it.
struct ContainerEntry {
  std::string_view dialect;
  std::string_view bytes;
  bool isText; ///< as MLIR's text, not as the dialect's code
};

/// Empty where MLIR's reader can be asked for each of them; else what is wrong
/// with one: a list that is longer than its entry, a part that is not there, an
/// entry that is a part of itself or nested too deep, a kind that no portable
/// artefact has and MLIR's reader takes unchecked.
std::string checkHloEntries(const std::vector<ContainerEntry> &attributes,
                            const std::vector<ContainerEntry> &types);

} // namespace knapper
