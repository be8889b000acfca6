#include "frontends/stablehlo/Container.h"
#include "llvm/ADT/bit.h"

#include <optional>

namespace knapper {
namespace {

enum Section { dialects = 1, attributeOffsets = 3, sectionCount = 9 };

/// Reads what MLIR calls varints and sections; nothing beyond the end.
class Cursor {
public:
  explicit Cursor(std::string_view bytes, size_t at = 0)
      : bytes(bytes), at(at) {}

  bool done() const { return at >= bytes.size(); }
  size_t position() const { return at; }
  std::string_view rest() const { return bytes.substr(at); }
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

private:
  std::string_view bytes;
  size_t at;
};

/// As many groups as give `count` entries: a dialect, a number, and an offset
/// with a flag an entry.
bool checkGroups(Cursor &cursor, uint64_t count) {
  while (count > 0) {
    std::optional<uint64_t> dialect = cursor.number(), size = cursor.number();
    if (!dialect || !size || *size > count)
      return false;
    count -= *size;
    for (uint64_t i = 0; i < *size; ++i)
      if (!cursor.number())
        return false;
  }
  return true;
}

bool checkSection(unsigned id, std::string_view bytes) {
  Cursor cursor(bytes);
  if (id == dialects) {
    std::optional<uint64_t> count = cursor.number();
    return count && *count <= bytes.size();
  }
  if (id == attributeOffsets) {
    std::optional<uint64_t> attributes = cursor.number(),
                            types = cursor.number();
    return attributes && types && *attributes <= bytes.size() &&
           *types <= bytes.size() && checkGroups(cursor, *attributes) &&
           checkGroups(cursor, *types);
  }
  return true;
}

bool checkSections(std::string_view bytes) {
  constexpr size_t magic = 4;
  Cursor cursor(bytes, std::min(magic, bytes.size()));
  if (!cursor.number()) // the version
    return false;
  size_t producer = cursor.rest().find('\0');
  if (producer == std::string_view::npos)
    return false;
  cursor.skip(producer + 1);
  while (!cursor.done()) {
    std::optional<uint8_t> head = cursor.byte();
    std::optional<uint64_t> size = cursor.number();
    if (!head || !size)
      return false;
    if (*head & 0x80) {
      std::optional<uint64_t> alignment = cursor.number();
      if (!alignment || !llvm::has_single_bit(*alignment) ||
          *alignment > bytes.size())
        return false;
      cursor.skip((*alignment - cursor.position() % *alignment) % *alignment);
    }
    unsigned id = *head & 0x7f;
    if (id >= sectionCount || *size > cursor.rest().size() ||
        !checkSection(id, cursor.rest().substr(0, *size)))
      return false;
    cursor.skip(*size);
  }
  return true;
}

} // namespace

Status checkHloContainer(std::string_view bytes, const std::string &where) {
  if (checkSections(bytes))
    return success();
  return userError("cannot be read as a StableHLO program: its sections hold "
                   "less than they say",
                   where, "give what jax.export writes, or serialise it again");
}

} // namespace knapper
