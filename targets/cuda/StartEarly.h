// Kernels that start while those before them end (programmatic dependent
// launch), in PTX text.
#pragma once

#include <string>
#include <string_view>

namespace knapper {

/// Kernels of `text` let the next one start at once, and wait for the end of
/// those before them: where they say so themselves (`griddepcontrol.wait` in
/// straight code that has touched no memory of the device), else first of all.
/// Reads of memory by the read-only path become plain ones, which stay behind
/// the wait. All kernels wait, so that the end of one is the end of all before
/// it. The launch decides: without its permission nothing overlaps.
std::string startEarly(std::string_view text);

} // namespace knapper
