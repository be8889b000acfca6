// Where what is measured or found out once is kept for later processes.
#pragma once

#include <string>

namespace knapper {

/// $XDG_CACHE_HOME/knapper, or ~/.cache/knapper; "" where the environment names
/// neither by an absolute path. It need not exist.
std::string cacheFolder();

/// Makes a folder below cacheFolder(), and what is missing above it, for this
/// user alone. False where that cannot be (a read-only root), which is no
/// error: then nothing is kept.
bool makeCacheFolder(const std::string &folder);

} // namespace knapper
