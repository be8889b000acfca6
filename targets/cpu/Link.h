// Object files to one loadable image, by lld in this process.
#pragma once

#include "targets/KernelJob.h"

namespace knapper {

/// Links `objects` to a shared object that needs no dynamic linker: its
/// segments are mapped and nothing is relocated (runtime/artefact/ElfImage.h).
/// `roots` are the functions to keep and to list. Thread-safe: links happen one
/// at a time. InternalError when the objects leave a symbol undefined, need a
/// relocation at load, or have writable or thread-local data.
Expected<KernelImage> linkImage(std::span<const std::string> objects,
                                std::span<const std::string> roots);

} // namespace knapper
