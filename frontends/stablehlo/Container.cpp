#include "frontends/stablehlo/Container.h"
#include "frontends/stablehlo/ContainerCode.h"
#include "frontends/stablehlo/ContainerCursor.h"
#include "llvm/ADT/bit.h"

namespace knapper {
namespace {

enum Section {
  strings,
  dialects,
  attributeOffsets = 3,
  code,
  properties = 8,
  sectionCount
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

/// The sizes of the strings, each with its zero, stand before them.
bool checkStrings(Cursor &cursor) {
  std::optional<uint64_t> count = cursor.count();
  if (!count)
    return false;
  uint64_t sum = 0;
  for (uint64_t i = 0; i < *count; ++i) {
    std::optional<uint64_t> size = cursor.count();
    if (!size || *size == 0)
      return false;
    sum += *size;
  }
  return sum == cursor.left();
}

/// After the dialects' names, each with a section for its version, stands how
/// many ops they have.
bool checkDialects(Cursor &cursor, uint64_t version) {
  std::optional<uint64_t> count = cursor.count();
  if (!count)
    return false;
  for (uint64_t i = 0; i < *count; ++i) {
    std::optional<uint64_t> name = cursor.number();
    if (!name)
      return false;
    bool hasVersion = version >= dialectVersions && (*name & 1);
    if (hasVersion && !cursor.section())
      return false;
  }
  return version < elidedLocations || cursor.count();
}

bool checkSection(unsigned id, Cursor cursor, uint64_t version) {
  size_t size = cursor.left();
  if (id == strings)
    return checkStrings(cursor);
  if (id == dialects)
    return checkDialects(cursor, version);
  if (id == properties)
    return cursor.count().has_value();
  if (id == code)
    return checkHloCode(cursor, version);
  if (id == attributeOffsets) {
    std::optional<uint64_t> attributes = cursor.number(),
                            types = cursor.number();
    return attributes && types && *attributes <= size && *types <= size &&
           checkGroups(cursor, *attributes) && checkGroups(cursor, *types);
  }
  return true;
}

bool checkSections(std::string_view bytes) {
  constexpr size_t magic = 4;
  Cursor cursor(bytes, std::min(magic, bytes.size()));
  std::optional<uint64_t> version = cursor.number();
  if (!version)
    return false;
  size_t producer = cursor.rest().find('\0');
  if (producer == std::string_view::npos)
    return false;
  cursor.skip(producer + 1);
  while (!cursor.done()) {
    std::optional<Cursor::Part> part = cursor.section();
    if (!part || part->id >= sectionCount ||
        !checkSection(part->id, part->inside, *version))
      return false;
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
