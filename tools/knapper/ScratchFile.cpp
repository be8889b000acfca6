#include "tools/knapper/ScratchFile.h"
#include "runtime/base/SystemError.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

namespace knapper::cli {

Expected<ScratchFile> ScratchFile::create() {
  std::error_code error;
  std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error)
    return userError("there is no folder for temporary files: " +
                         error.message(),
                     "TMPDIR", "set it to a folder that can be written");
  std::string name = (folder / "knapper-XXXXXX").string();
  int fd = mkstemp(name.data());
  if (fd < 0)
    return userError("cannot be made: " + systemErrorText(errno), name,
                     "set TMPDIR to a folder that can be written");
  close(fd);
  return ScratchFile(std::move(name));
}

ScratchFile::~ScratchFile() {
  if (!name.empty())
    unlink(name.c_str());
}

} // namespace knapper::cli
