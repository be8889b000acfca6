#include "runtime/artefact/WholeFiles.h"

#include "runtime/base/CacheFolder.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace knapper {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kQuiet = 2 * kSecond; // coarser than any file system's clock

int64_t nanoseconds(const timespec &time) {
  return int64_t(time.tv_sec) * kSecond + time.tv_nsec;
}

std::string folder() {
  std::string base = cacheFolder();
  return base.empty() ? "" : base + "/whole";
}

void dropOldest(const std::string &where, unsigned most) {
  DIR *entries = opendir(where.c_str());
  if (!entries)
    return;
  std::vector<std::pair<int64_t, std::string>> marks;
  while (const dirent *entry = readdir(entries))
    if (struct stat info;
        fstatat(dirfd(entries), entry->d_name, &info, 0) == 0 &&
        S_ISREG(info.st_mode))
      marks.emplace_back(nanoseconds(info.st_mtim), entry->d_name);
  if (marks.size() > most) {
    std::sort(marks.begin(), marks.end());
    for (size_t i = 0; i < marks.size() - most / 2; ++i)
      unlinkat(dirfd(entries), marks[i].second.c_str(), 0);
  }
  closedir(entries);
}

} // namespace

FileState::FileState(const struct stat &info) {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  int64_t changed = nanoseconds(info.st_ctim);
  if (nanoseconds(now) - changed < kQuiet)
    return;
  name = cat(info.st_dev, "-", info.st_ino, "-", info.st_size, "-",
             nanoseconds(info.st_mtim), "-", changed);
}

bool FileState::isKnownWhole() const {
  std::string where = folder();
  return !name.empty() && !where.empty() &&
         access(cat(where, "/", name).c_str(), F_OK) == 0;
}

void FileState::markWhole(unsigned most) const {
  std::string where = folder();
  if (name.empty() || where.empty() || !makeCacheFolder(where))
    return;
  int fd =
      open(cat(where, "/", name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  close(fd);
  dropOldest(where, most);
}

} // namespace knapper
