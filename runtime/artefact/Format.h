// The fixed parts of a .knap file: prelude, alignments, versions, hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace knapper {

/// Raised when an older runtime could misread a newer file or the kernel ABI
/// changes (runtime/base/KernelAbi.h).
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr char kMagic[8] = {'K', 'N', 'A', 'P', 'P', 'E', 'R', '\0'};
inline constexpr uint64_t kSectionAlignment = 4096;
inline constexpr uint64_t kConstantAlignment = 64;
/// A constant that is larger has a hash for each piece of this size, so that
/// several threads can check it.
inline constexpr uint64_t kHashPieceBytes = 1 << 20;
/// Files are written in pieces of this size.
inline constexpr uint64_t kHugePageBytes = 2 << 20;

/// The first 64 bytes of the file, little endian.
struct Prelude {
  char magic[8];
  uint32_t format;
  uint32_t flags; // 0 in this version
  uint64_t headerOffset;
  uint64_t headerBytes;
  uint64_t headerHash;
  uint8_t zero[24];
};
static_assert(sizeof(Prelude) == 64);

/// XXH3-64 of a memory range.
uint64_t hashBytes(const void *data, size_t bytes);

/// The hash of a constant of one piece is that of its bytes, of others that of
/// the list of their pieces' hashes.
struct ConstantHash {
  uint64_t hash = 0;
  std::vector<uint64_t> pieces; // empty for one piece
};
ConstantHash hashConstant(const void *data, uint64_t bytes);

} // namespace knapper
