// What decoding asks of a program as a whole, once its parts are known to be
// good. Shared by the files of Program::decode.
#pragma once

#include "runtime/artefact/Program.h"

#include <string_view>

namespace knapper {

/// The error of a damaged program; `at` lies inside the artefact's header.
Error damagedProgram(const Artefact &artefact, const fb::Program &from,
                     const void *at, std::string_view what);

/// Regions end and share no branches or loop bodies, live ranges cover every
/// use. Sets what is optional.
Status checkStructure(const Artefact &artefact, const fb::Program &from,
                      Program &program);

/// Buffers hold strings or something else, never both.
Status checkTexts(const Artefact &artefact, const fb::Program &from,
                  const Program &program);

/// Fills in what each late symbol, and each assignment of several, decides, so
/// that setting one costs what hangs on it. An error when the lists hold more
/// than `budget` entries.
Status findDependents(const Artefact &artefact, const fb::Program &from,
                      uint64_t budget, Program &program);

} // namespace knapper
