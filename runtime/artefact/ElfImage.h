// A compiled code section in memory. Kernels need nothing from a dynamic
// linker, so loading is mapping: no relocation, no symbol lookup.
#pragma once

#include "runtime/base/Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace knapper {

/// Executable memory with the segments of one ELF shared object. Immutable and
/// shareable between threads; unmapped when destroyed.
class ElfImage {
public:
  /// Copies the segments of `elf` into memory of their own, then removes write
  /// permission. Refused with a UserError: anything but a little-endian 64-bit
  /// x86-64 shared object, relocations, thread-local storage, needed libraries,
  /// initialisers, undefined symbols, writable data, segments outside the
  /// section. `where` names the file and section in messages.
  static Expected<std::unique_ptr<ElfImage>>
  load(std::span<const std::byte> elf, const std::string &where);
  ~ElfImage();
  ElfImage(const ElfImage &) = delete;
  ElfImage &operator=(const ElfImage &) = delete;

  /// The instruction at `offset` from the image base; nullptr unless it lies in
  /// an executable segment.
  const void *entry(uint64_t offset) const;
  size_t bytes() const { return size; }

private:
  ElfImage(std::byte *base, size_t size) : base(base), size(size) {}
  std::byte *base;
  size_t size;
  struct Range {
    uint64_t begin, end;
  };
  std::vector<Range> executable;
};

} // namespace knapper
