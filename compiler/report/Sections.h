//===- Sections.h - Parts of the page, each a file of its own -------------===//
#pragma once

#include "compiler/report/Writer.h"

namespace knapper::report {

/// Markup up to the navigation, which is closed; with its style.
extern const char *const kPageHead;
/// The script and what closes the page.
extern const char *const kPageTail;

/// The longest kernels of description["profile"] (Times.h) with what would make
/// them faster; nothing where the module was not measured.
void timesSection(Writer &out, const Json &description);

/// Kernels and the tensors between them, to walk through: a node a launch, an
/// edge a tensor that one writes and another reads; what the chosen one is
/// beside it.
void graphSection(Writer &out, const Json &description);

/// Times of two modules, of description["comparison"] (Comparison.h); nothing
/// where there is none.
void comparisonSection(Writer &out, const Json &description);

} // namespace knapper::report
