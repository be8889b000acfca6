//===- ScratchFile.h - A file that goes with its object -------------------===//
#pragma once

#include "runtime/base/Error.h"

#include <string>

namespace knapper::cli {

/// A private, empty file in the folder for temporary files, removed at the end.
class ScratchFile {
public:
  static Expected<ScratchFile> create();
  ScratchFile(ScratchFile &&other) noexcept : name(std::move(other.name)) {
    other.name.clear();
  }
  ScratchFile &operator=(ScratchFile &&) = delete;
  ~ScratchFile();
  const std::string &path() const { return name; }

private:
  explicit ScratchFile(std::string name) : name(std::move(name)) {}
  std::string name;
};

} // namespace knapper::cli
