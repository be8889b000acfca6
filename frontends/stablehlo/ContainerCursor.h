//===- ContainerCursor.h - Reads numbers and sections of MLIR bytecode ----===//
#pragma once

#include "llvm/ADT/bit.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace knapper {

/// Versions of the container that brought something.
enum ContainerVersion : uint64_t {
  dialectVersions = 1,
  regionSections = 2,
  useListOrders = 3,
  elidedLocations = 4
};

/// Reads what MLIR calls varints and sections; nothing beyond the end.
/// Positions are those in the file, whose sections are aligned from its begin.
class Cursor {
public:
  explicit Cursor(std::string_view bytes, size_t at = 0)
      : bytes(bytes), at(at) {}

  bool done() const { return at >= bytes.size(); }
  size_t position() const { return at; }
  std::string_view rest() const { return bytes.substr(at); }
  size_t left() const { return bytes.size() - at; }
  void skip(size_t count) { at += std::min(count, bytes.size() - at); }

  std::optional<uint8_t> byte() {
    return done() ? std::nullopt
                  : std::optional(static_cast<uint8_t>(bytes[at++]));
  }

  /// The zeros below the lowest one of the first byte say how many follow.
  std::optional<uint64_t> number() {
    std::optional<uint8_t> first = byte();
    if (!first)
      return std::nullopt;
    int more = *first ? llvm::countr_zero(*first) : 8;
    uint64_t value = more == 8 ? 0 : *first >> (more + 1);
    for (int i = 0; i < more; ++i) {
      std::optional<uint8_t> next = byte();
      if (!next)
        return std::nullopt;
      int shift = more == 8 ? 8 * i : 7 - more + 8 * i;
      value |= uint64_t(*next) << shift;
    }
    return value;
  }

  /// How many of something follow, each of at least a byte.
  std::optional<uint64_t> count() {
    std::optional<uint64_t> value = number();
    return value && *value <= left() ? value : std::nullopt;
  }

  struct Part;
  /// The section that begins here; the cursor stands behind it afterwards.
  std::optional<Part> section();

private:
  std::string_view bytes;
  size_t at;
};

struct Cursor::Part {
  unsigned id;
  Cursor inside;
};

inline std::optional<Cursor::Part> Cursor::section() {
  std::optional<uint8_t> head = byte();
  std::optional<uint64_t> size = number();
  if (!head || !size)
    return std::nullopt;
  if (*head & 0x80) {
    std::optional<uint64_t> alignment = number();
    if (!alignment || !llvm::has_single_bit(*alignment) ||
        *alignment > bytes.size())
      return std::nullopt;
    skip((*alignment - at % *alignment) % *alignment);
  }
  if (*size > left())
    return std::nullopt;
  Part part{*head & 0x7fu, Cursor(bytes.substr(0, at + *size), at)};
  skip(*size);
  return part;
}

} // namespace knapper
