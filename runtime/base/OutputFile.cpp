#include "runtime/base/OutputFile.h"

#include "runtime/base/SystemError.h"
#include "runtime/base/Text.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace knapper {
namespace {

std::string temporaryName(const std::string &path) {
  static std::atomic<unsigned> counter{0};
  return cat(path, ".", getpid(), ".", counter++, ".tmp");
}

/// A file without a name in the folder of `path`: a process that is ended
/// leaves nothing behind. -1 where that is not possible.
int openNameless(const std::string &path) {
  if (access("/proc/self/fd", X_OK) != 0)
    return -1; // no way to give it a name
  size_t slash = path.rfind('/');
  std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
}

} // namespace

OutputFile::OutputFile(int fd, std::string path, std::string temporary)
    : fd(fd), path(std::move(path)), temporary(std::move(temporary)) {}

OutputFile::OutputFile(OutputFile &&other) noexcept
    : fd(std::exchange(other.fd, -1)), path(std::move(other.path)),
      temporary(std::exchange(other.temporary, {})) {}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
  if (!temporary.empty())
    unlink(temporary.c_str());
}

Error OutputFile::writeError(const std::string &path, int number) {
  std::string what = "cannot write: " + systemErrorText(number);
  if (number == ENOSPC || number == EDQUOT)
    return deviceError(what, path, "free some space on this file system");
  if (number == EACCES || number == ENOENT || number == EROFS ||
      number == ENOTDIR || number == EISDIR || number == ENAMETOOLONG)
    return userError(what, path, "give a path in a folder that can be written");
  return deviceError(what, path);
}

Expected<std::string> OutputFile::destination(const std::string &path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0)
    return path; // nothing there, or a link that leads nowhere
  if (S_ISDIR(status.st_mode))
    return userError("is a folder", path, "name a file inside it");
  if (!S_ISREG(status.st_mode))
    return userError("is a device or a pipe", path, "name a file");
  struct stat link;
  if (lstat(path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode))
    return path;
  std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr),
                                               free);
  return real ? std::string(real.get()) : path;
}

Expected<OutputFile> OutputFile::create(std::string given) {
  Expected<std::string> resolved = destination(given);
  if (!resolved)
    return resolved.takeError();
  std::string path = std::move(*resolved);
  if (int fd = openNameless(path); fd >= 0)
    return OutputFile(fd, std::move(path), {});
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = temporaryName(path);
    int fd =
        open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
      return OutputFile(fd, std::move(path), std::move(temporary));
    if (errno != EEXIST)
      return writeError(path, errno);
  }
  return writeError(path, EEXIST);
}

Status OutputFile::commit() {
  std::string self = cat("/proc/self/fd/", fd);
  // Nothing there: one step, which cannot be interrupted half-way.
  if (temporary.empty() && linkat(AT_FDCWD, self.c_str(), AT_FDCWD,
                                  path.c_str(), AT_SYMLINK_FOLLOW) == 0)
    return success();
  // A link cannot replace a file, a rename can.
  for (int attempt = 0; temporary.empty(); ++attempt) {
    std::string name = temporaryName(path);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(),
               AT_SYMLINK_FOLLOW) == 0)
      temporary = std::move(name);
    else if (errno != EEXIST || attempt == 100)
      return writeError(path, errno);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0)
    return writeError(path, errno);
  temporary.clear();
  return success();
}

} // namespace knapper
