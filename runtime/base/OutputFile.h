// A file that appears whole or not at all.
#pragma once

#include "runtime/base/Error.h"

#include <string>
#include <utility>

namespace knapper {

/// Written under no name where the system has nameless files, else under a
/// temporary one beside `path`; `commit` gives it its name and replaces what
/// was there. Until then, and when the process is ended, `path` is as it was.
class OutputFile {
public:
  /// Where a file of this name is to be put: behind a link what it leads to.
  /// A folder, device or pipe of this name is a UserError: it stays.
  static Expected<std::string> destination(const std::string &path);
  /// A folder that cannot be written is a UserError, a full one a DeviceError.
  static Expected<OutputFile> create(std::string path);
  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&) = delete;
  /// Removes what was not committed.
  ~OutputFile();

  /// Open for reading and writing, ours.
  int descriptor() const { return fd; }
  /// The name that it will have.
  const std::string &name() const { return path; }
  Status commit();

  /// What a failed write of `path` (or "memory") says.
  static Error writeError(const std::string &path, int number);

private:
  OutputFile(int fd, std::string path, std::string temporary);

  int fd;
  std::string path, temporary; // temporary: "" while it has no name
};

} // namespace knapper
