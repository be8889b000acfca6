#include "serving/grammar/CloseDescriptors.h"

#include <algorithm>
#include <cstdlib>
#include <dirent.h>
#include <unistd.h>
#include <vector>

namespace knapper::serving {

void closeDescriptors(int first, bool bySystemCall) {
  if (bySystemCall && close_range(static_cast<unsigned>(first), ~0u, 0) == 0)
    return;
  if (DIR *folder = opendir("/proc/self/fd")) {
    std::vector<int> found; // closed when the folder is read
    while (dirent *entry = readdir(folder))
      if (int file = atoi(entry->d_name);
          file >= first && file != dirfd(folder))
        found.push_back(file);
    closedir(folder);
    for (int file : found)
      close(file);
    return;
  }
  constexpr long many = 65536;
  long most = std::min(many, sysconf(_SC_OPEN_MAX));
  for (long file = first; file < (most > 0 ? most : many); ++file)
    close(static_cast<int>(file));
}

} // namespace knapper::serving
