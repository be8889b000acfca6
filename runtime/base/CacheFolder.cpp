#include "runtime/base/CacheFolder.h"

#include <cerrno>
#include <cstdlib>
#include <sys/stat.h>

namespace knapper {

std::string cacheFolder() {
  const char *cache = getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/')
    return std::string(cache) + "/knapper";
  const char *home = getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.cache/knapper" : "";
}

bool makeCacheFolder(const std::string &folder) {
  for (size_t slash = 1; slash != std::string::npos;) {
    slash = folder.find('/', slash + 1);
    if (mkdir(folder.substr(0, slash).c_str(), 0700) != 0 && errno != EEXIST &&
        slash == std::string::npos)
      return false;
  }
  return true;
}

} // namespace knapper
