#include "runtime/artefact/WholeFiles.h"

#include "runtime/base/CacheFolder.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

constexpr size_t kLongestLine = 200;

std::string below(const std::string &folder) {
  std::string base = cacheFolder();
  return base.empty() ? "" : cat(base, "/", folder);
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
  std::string where = below("whole");
  return !name.empty() && !where.empty() &&
         access(cat(where, "/", name).c_str(), F_OK) == 0;
}

void FileState::markWhole(unsigned most) const {
  std::string where = below("whole");
  if (name.empty() || where.empty() || !makeCacheFolder(where))
    return;
  int fd =
      open(cat(where, "/", name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  close(fd);
  dropOldest(where, most);
}

std::string FileState::keptLine(const std::string &folder) const {
  std::string where = below(folder);
  if (name.empty() || where.empty())
    return "";
  int fd = open(cat(where, "/", name).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return "";
  std::string line(kLongestLine + 1, '\0');
  ssize_t size = read(fd, line.data(), line.size());
  close(fd);
  // What was cut has no end.
  if (size <= 0 || line[static_cast<size_t>(size) - 1] != '\n')
    return "";
  line.resize(static_cast<size_t>(size) - 1);
  return line;
}

void FileState::keepLine(const std::string &folder, const std::string &line,
                         unsigned most) const {
  std::string where = below(folder), text = line + "\n";
  if (name.empty() || where.empty() || line.size() > kLongestLine ||
      !makeCacheFolder(where))
    return;
  // Whole or not at all, whichever process or thread keeps it now too.
  std::string path = cat(where, "/", name),
              made = cat(path, ".", getpid(), ".", syscall(SYS_gettid));
  int fd = open(made.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0)
    return;
  bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  if (!written || rename(made.c_str(), path.c_str()) != 0)
    unlink(made.c_str());
  dropOldest(where, most);
}

} // namespace knapper
