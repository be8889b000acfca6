// Files that are read whole. What has no end (a device) or is waited for (a
// pipe) is refused, with what else cannot be read.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <string>

namespace knapper {

class InputFile {
public:
  /// UserError for a path that cannot be opened and for what is no regular
  /// file. Never waits. `hint` is what to try.
  static Expected<InputFile>
  open(const std::string &path,
       const char *hint = "check the path and its permissions");

  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) = delete;
  ~InputFile();

  /// Owned; open as long as this lives.
  int descriptor() const { return fd; }
  uint64_t bytes() const { return size; }
  /// The content. DeviceError when the system fails; throws std::bad_alloc as
  /// any container does.
  Expected<std::string> read() const;

private:
  InputFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}

  std::string path;
  int fd;
  uint64_t size = 0;
};

} // namespace knapper
