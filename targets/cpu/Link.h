// Object files to one loadable image, by lld in this process.
#pragma once

#include "runtime/base/Error.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace knapper {

/// A shared object that needs no dynamic linker: its segments are mapped and
/// nothing is relocated (runtime/artefact/ElfImage.h).
struct LinkedImage {
  std::string elf;
  std::map<std::string, uint64_t> entries; // function -> offset from the base
};

/// Links `objects`; `roots` are the functions to keep and to list. Thread-safe:
/// links happen one at a time. InternalError when the objects leave a symbol
/// undefined, need a relocation at load, or have writable or thread-local data.
Expected<LinkedImage> linkImage(std::span<const std::string> objects,
                                std::span<const std::string> roots);

} // namespace knapper
