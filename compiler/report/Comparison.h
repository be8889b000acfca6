//===- Comparison.h - Times of two modules, kernel by kernel --------------===//
#pragma once

#include "compiler/report/Writer.h"

namespace knapper::report {

/// Two descriptions that have "profile" (Times.h), of runs on the same inputs
/// interleaved:
///   {"first", "second": names of the files,
///    "total_us": [first, second], "ratio": second over first,
///    "kernels": [{"origin", "first": {"kernels", "launches", "us"},
///                 "second": {...}, "difference_us", "ratio"}]}
/// by the size of the difference (second less first). Kernels are paired by
/// signature, the hash of what they compute; those that are left by the nodes
/// of the model whose results they compute, so that one kernel may stand beside
/// several. A side that has none has no kernels, and the ratio is null.
Json comparisonOf(const Json &first, const Json &second);

} // namespace knapper::report
