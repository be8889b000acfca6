#include "runtime/base/InputFile.h"

#include "runtime/base/SystemError.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace knapper {

InputFile::InputFile(InputFile &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)),
      size(other.size) {}

InputFile::~InputFile() {
  if (fd >= 0)
    close(fd);
}

Expected<InputFile> InputFile::open(const std::string &path, const char *hint) {
  auto fail = [&](int code) {
    std::string what = "cannot be read: " + systemErrorText(code);
    if (code == ENOMEM)
      return deviceError(what, path, "free memory");
    if (code == EMFILE || code == ENFILE)
      return deviceError(what, path, "raise the limit of open files");
    return userError(what, path, hint);
  };
  // A pipe without a writer would be waited for.
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail(errno);
  InputFile file(path, fd);
  struct stat status;
  if (fstat(fd, &status) != 0)
    return fail(errno);
  if (S_ISDIR(status.st_mode))
    return userError("is a folder", path, "name the file inside it");
  if (!S_ISREG(status.st_mode))
    return userError("is not a regular file", path,
                     "write it to a file, and give that");
  file.size = static_cast<uint64_t>(status.st_size);
  return file;
}

Expected<std::string> InputFile::read() const {
  std::string content(size, '\0');
  for (size_t done = 0; done < size;) {
    ssize_t count =
        pread(fd, content.data() + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return deviceError("cannot be read: " + systemErrorText(errno), path);
    if (count == 0) { // it became shorter
      content.resize(done);
      break;
    }
    done += static_cast<size_t>(count);
  }
  return content;
}

} // namespace knapper
