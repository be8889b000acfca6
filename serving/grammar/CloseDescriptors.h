// Closes what a copy of the process must not hold.
#pragma once

namespace knapper::serving {

/// Closes all descriptors from `first` on. Also where the kernel is older than
/// close_range (5.9), or with `bySystemCall` false: then those that
/// /proc/self/fd lists, or, without it, the first 65,536.
void closeDescriptors(int first, bool bySystemCall = true);

} // namespace knapper::serving
