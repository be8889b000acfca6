#include "frontends/stablehlo/ContainerCode.h"

#include <algorithm>
#include <vector>

namespace knapper {
namespace {

/// What of an op follows its name, its mask and its location.
enum Mask : uint8_t {
  hasAttributes = 0x01,
  hasResults = 0x02,
  hasOperands = 0x04,
  hasSuccessors = 0x08,
  hasRegions = 0x10,
  hasUseListOrders = 0x20,
  hasProperties = 0x40
};

/// MLIR walks regions by recursion.
constexpr unsigned deepest = 256;

struct Value {
  uint64_t uses = 0;
  uint64_t ordered = 0; ///< one more than the highest use that is given a place
};

class IrSection {
public:
  explicit IrSection(uint64_t version) : version(version) {}

  bool outermost(Cursor cursor) {
    std::optional<uint64_t> head = cursor.number();
    Scope scope;
    return head && !(*head & 1) && ops(cursor, *head >> 1, scope);
  }

private:
  /// The values that an op may name: those of its region and of the regions
  /// around it, as far as the next op that is isolated from above.
  struct Scope {
    std::vector<Value> values;
    uint64_t next = 0;     ///< the next to be defined of the innermost region
    bool numbered = false; ///< false where that region defines none
  };

  bool ops(Cursor &cursor, uint64_t count, Scope &scope) {
    for (uint64_t i = 0; i < count; ++i)
      if (!op(cursor, scope))
        return false;
    return true;
  }
  bool op(Cursor &cursor, Scope &scope);
  bool regions(Cursor &cursor, Scope &scope);
  bool region(Cursor &cursor, Scope &scope);
  bool block(Cursor &cursor, Scope &scope);
  bool arguments(Cursor &cursor, Scope &scope);
  bool orders(Cursor &cursor, Scope &scope, uint64_t first, uint64_t count);

  static bool numbers(Cursor &cursor, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i)
      if (!cursor.number())
        return false;
    return true;
  }

  uint64_t version;
  unsigned depth = 0;
};

bool IrSection::op(Cursor &cursor, Scope &scope) {
  if (!cursor.number())
    return false;
  std::optional<uint8_t> mask = cursor.byte();
  if (!mask || !cursor.number())
    return false;
  if ((*mask & hasAttributes && !cursor.number()) ||
      (*mask & hasProperties && !cursor.number()))
    return false;
  uint64_t results = 0;
  if (*mask & hasResults) {
    std::optional<uint64_t> count = cursor.count();
    if (!count || !numbers(cursor, *count))
      return false;
    results = *count;
  }
  if (*mask & hasOperands) {
    std::optional<uint64_t> count = cursor.count();
    for (uint64_t i = 0; count && i < *count; ++i) {
      std::optional<uint64_t> value = cursor.number();
      if (!value || *value >= scope.values.size())
        return false;
      ++scope.values[*value].uses;
    }
    if (!count)
      return false;
  }
  if (*mask & hasSuccessors) {
    std::optional<uint64_t> count = cursor.count();
    if (!count || !numbers(cursor, *count))
      return false;
  }
  uint64_t first = scope.next;
  if (scope.numbered) {
    if (results > scope.values.size() - first)
      return false;
    scope.next += results;
  }
  if (version >= useListOrders && *mask & hasUseListOrders &&
      !orders(cursor, scope, first, results))
    return false;
  return !(*mask & hasRegions) || regions(cursor, scope);
}

/// For each of some of the `count` values from `first` on: how many numbers,
/// and whether they are pairs of a use and its place or all places.
bool IrSection::orders(Cursor &cursor, Scope &scope, uint64_t first,
                       uint64_t count) {
  std::optional<uint64_t> lists = 1;
  if (count > 1)
    lists = cursor.count();
  for (uint64_t i = 0; lists && i < *lists; ++i) {
    std::optional<uint64_t> value = 0;
    if (count > 1)
      value = cursor.number();
    std::optional<uint64_t> head = cursor.number();
    if (!value || !head || *head >> 1 > cursor.left())
      return false;
    for (uint64_t k = 0; k < *head >> 1; ++k) {
      std::optional<uint64_t> index = cursor.number();
      if (!index || *index >= UINT32_MAX)
        return false;
      if (scope.numbered && *value < count) {
        Value &ordered = scope.values[first + *value];
        ordered.ordered = std::max(ordered.ordered, *index + 1);
      }
    }
  }
  return lists.has_value();
}

bool IrSection::regions(Cursor &cursor, Scope &scope) {
  std::optional<uint64_t> head = cursor.number();
  if (!head || *head >> 1 > cursor.left() || depth == deepest)
    return false;
  uint64_t count = *head >> 1;
  if (count == 0)
    return true;
  bool isolated = *head & 1;
  std::optional<Cursor::Part> part;
  if (isolated && version >= regionSections) {
    part = cursor.section();
    if (!part)
      return false;
  }
  Cursor &inside = part ? part->inside : cursor;
  Scope own;
  ++depth;
  for (uint64_t i = 0; i < count; ++i)
    if (!region(inside, isolated ? own : scope))
      return false;
  --depth;
  return true;
}

bool IrSection::region(Cursor &cursor, Scope &scope) {
  std::optional<uint64_t> blocks = cursor.count();
  if (!blocks)
    return false;
  if (*blocks == 0)
    return true;
  std::optional<uint64_t> values = cursor.count();
  if (!values)
    return false;
  uint64_t first = scope.values.size(), next = scope.next;
  bool numbered = scope.numbered;
  scope.values.resize(first + *values);
  scope.next = first;
  scope.numbered = *values > 0;
  for (uint64_t i = 0; i < *blocks; ++i)
    if (!block(cursor, scope))
      return false;
  if (scope.next != scope.values.size())
    return false;
  for (uint64_t i = first; i < scope.values.size(); ++i)
    if (scope.values[i].uses > 1 &&
        scope.values[i].ordered > scope.values[i].uses)
      return false;
  scope.values.resize(first);
  scope.next = next;
  scope.numbered = numbered;
  return true;
}

bool IrSection::block(Cursor &cursor, Scope &scope) {
  std::optional<uint64_t> head = cursor.number();
  return head && (!(*head & 1) || arguments(cursor, scope)) &&
         ops(cursor, *head >> 1, scope);
}

bool IrSection::arguments(Cursor &cursor, Scope &scope) {
  std::optional<uint64_t> count = cursor.count();
  uint64_t first = scope.next;
  if (!count || *count > scope.values.size() - first)
    return false;
  for (uint64_t i = 0; i < *count; ++i) {
    std::optional<uint64_t> type = cursor.number();
    bool located = version < elidedLocations || (type && *type & 1);
    if (!type || (located && !cursor.number()))
      return false;
  }
  scope.next += *count;
  if (version < useListOrders)
    return true;
  std::optional<uint8_t> ordered = cursor.byte();
  return ordered && (!*ordered || orders(cursor, scope, first, *count));
}

} // namespace

bool checkHloCode(Cursor cursor, uint64_t version) {
  return IrSection(version).outermost(cursor);
}

} // namespace knapper
