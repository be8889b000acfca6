#include "frontends/stablehlo/Container.h"
#include "frontends/stablehlo/ContainerCode.h"
#include "frontends/stablehlo/ContainerCursor.h"
#include "frontends/stablehlo/ContainerEntries.h"
#include "llvm/ADT/STLExtras.h"

namespace knapper {
namespace {

enum Section {
  strings,
  dialects,
  entryData,
  entryOffsets,
  code,
  properties = 8,
  sectionCount
};

constexpr const char *holdLess = "its sections hold less than they say";

/// Reads the sections one after the other.
class Container {
public:
  explicit Container(std::string_view bytes) : bytes(bytes) {}

  std::string check() {
    if (!sections())
      return holdLess;
    std::vector<ContainerEntry> attributes, types;
    if (!entries(attributes, types))
      return holdLess;
    return checkHloEntries(attributes, types);
  }

private:
  bool sections();
  bool section(unsigned id, Cursor cursor);
  bool readStrings(Cursor cursor);
  bool readDialects(Cursor cursor);
  bool entries(std::vector<ContainerEntry> &attributes,
               std::vector<ContainerEntry> &types) const;
  bool groups(Cursor &cursor, Cursor &data, uint64_t count,
              std::vector<ContainerEntry> &found) const;

  std::string_view bytes;
  uint64_t version = 0;
  std::vector<std::string_view> texts;
  std::vector<uint64_t> names;         ///< of dialects, among the texts
  std::optional<Cursor> data, offsets; ///< of types and attributes
};

/// As many groups as give `count` entries: a dialect, a number, and an entry's
/// size with a flag each. Their bytes stand one after the other in `data`.
bool Container::groups(Cursor &cursor, Cursor &data, uint64_t count,
                       std::vector<ContainerEntry> &found) const {
  while (count > 0) {
    std::optional<uint64_t> dialect = cursor.number(), size = cursor.number();
    if (!dialect || *dialect >= names.size() ||
        names[*dialect] >= texts.size() || !size || *size > count)
      return false;
    count -= *size;
    for (uint64_t i = 0; i < *size; ++i) {
      std::optional<uint64_t> head = cursor.number();
      if (!head || *head >> 1 > data.left())
        return false;
      found.push_back({texts[names[*dialect]],
                       data.rest().substr(0, *head >> 1), !(*head & 1)});
      data.skip(*head >> 1);
    }
  }
  return true;
}

bool Container::entries(std::vector<ContainerEntry> &attributes,
                        std::vector<ContainerEntry> &types) const {
  if (!data || !offsets)
    return false;
  Cursor cursor = *offsets, at = *data;
  size_t size = cursor.left();
  std::optional<uint64_t> first = cursor.number(), second = cursor.number();
  return first && second && *first <= size && *second <= size &&
         groups(cursor, at, *first, attributes) &&
         groups(cursor, at, *second, types);
}

/// The sizes of the strings, each with its zero, stand before them, those of
/// the last first.
bool Container::readStrings(Cursor cursor) {
  std::optional<uint64_t> count = cursor.count();
  if (!count)
    return false;
  std::vector<uint64_t> sizes(*count);
  uint64_t sum = 0;
  for (uint64_t &each : llvm::reverse(sizes)) {
    std::optional<uint64_t> size = cursor.count();
    if (!size || *size == 0)
      return false;
    sum += each = *size;
  }
  if (sum != cursor.left())
    return false;
  for (uint64_t size : sizes) {
    texts.push_back(cursor.rest().substr(0, size - 1));
    cursor.skip(size);
  }
  return true;
}

/// After the dialects' names, each with a section for its version, stands how
/// many ops they have.
bool Container::readDialects(Cursor cursor) {
  std::optional<uint64_t> count = cursor.count();
  if (!count)
    return false;
  for (uint64_t i = 0; i < *count; ++i) {
    std::optional<uint64_t> head = cursor.number();
    if (!head)
      return false;
    bool mayHaveVersion = version >= dialectVersions;
    uint64_t name = mayHaveVersion ? *head >> 1 : *head;
    bool hasVersion = mayHaveVersion && *head & 1;
    if (hasVersion && !cursor.section())
      return false;
    names.push_back(name);
  }
  return version < elidedLocations || cursor.count();
}

bool Container::section(unsigned id, Cursor cursor) {
  switch (id) {
  case strings:
    return readStrings(cursor);
  case dialects:
    return readDialects(cursor);
  case properties:
    return cursor.count().has_value();
  case code:
    return checkHloCode(cursor, version);
  case entryData:
    data = cursor;
    return true;
  case entryOffsets:
    offsets = cursor;
    return true;
  default:
    return true;
  }
}

bool Container::sections() {
  constexpr size_t magic = 4;
  Cursor cursor(bytes, std::min(magic, bytes.size()));
  std::optional<uint64_t> number = cursor.number();
  if (!number)
    return false;
  version = *number;
  size_t producer = cursor.rest().find('\0');
  if (producer == std::string_view::npos)
    return false;
  cursor.skip(producer + 1);
  while (!cursor.done()) {
    std::optional<Cursor::Part> part = cursor.section();
    if (!part || part->id >= sectionCount || !section(part->id, part->inside))
      return false;
  }
  return true;
}

} // namespace

Status checkHloContainer(std::string_view bytes, const std::string &where) {
  std::string problem = Container(bytes).check();
  if (problem.empty())
    return success();
  return userError("cannot be read as a StableHLO program: " + problem, where,
                   "give what jax.export writes, or serialise it again");
}

} // namespace knapper
