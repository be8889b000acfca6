#include "frontends/stablehlo/ContainerEntries.h"

#include <algorithm>
#include <limits>
#include <string>

namespace knapper {
namespace {

/// MLIR's reader goes down by recursion.
constexpr unsigned deepest = 512;

/// What follows the code of an entry: a attribute, A list of them, T type, L
/// list of them, v varint, V list of them, d real number or s signed one (a
/// varint each), S list of them, b byte, B list of bytes, o attribute if a flag
/// says so, w varint and an attribute where it is not 0, M list of pairs of
/// attributes, D shape, I width of an integer, # a number as its type has it, C
/// type of numbers, R of real ones. ! is a kind that is refused.
using Format = const char *;

// In MLIR 22: BuiltinDialectBytecode.td. Those refused trust their bytes.
constexpr Format builtinAttributes[] = {
    /*array*/ "A",         /*dictionary*/ "M",
    /*string*/ "v",
    /*string, type*/ "vT", /*symbol*/ "a",
    /*symbols*/ "aA",
    /*type*/ "T",          /*unit*/ "",
    /*integer*/ "T#",
    /*float*/ "T#",        /*call site*/ "aa",
    /*line*/ "avv",
    /*fused*/ "A",         /*fused, metadata*/ "Aa",
    /*name*/ "aa",
    /*unknown place*/ "",  /*resource*/ "!",
    /*numbers*/ "!",
    /*elements*/ "!",      /*strings*/ "!",
    /*sparse*/ "!",
    /*distinct*/ "!",      /*range of lines*/ "aV"};
constexpr Format builtinTypes[] = {
    /*integer*/ "I",
    /*index*/ "",
    /*function*/ "LL",
    /*bf16*/ "",
    /*f16*/ "",
    /*f32*/ "",
    /*f64*/ "",
    /*f80*/ "!",
    /*f128*/ "!",
    /*complex*/ "R",
    /*memref*/ "!",
    /*memref, space*/ "!",
    /*none*/ "",
    /*tensor*/ "DC",
    /*tensor, encoding*/ "!",
    /*tuple*/ "L",
    /*memref*/ "!",
    /*memref, space*/ "!",
    /*tensor without rank*/ "!",
    /*vector*/ "!",
    /*vector, scalable*/ "!",
    /*tf32*/ "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    /*f8E8M0FNU*/ ""};
// In VhloBytecode.cpp, which says what is not known.
constexpr Format vhloAttributes[] = {
    "",  "A", "v",  "v", "v", "v", "M", "v",    "T#", "T#", "SsS", "v", "v",
    "v", "v", "TB", "v", "T", "S", "v", "ddsa", "ss", "aw", "aa",  "as"};
constexpr Format vhloTypes[] = {
    "", "T", "",        "",  "", "", "", "", "LL",      "",   "",
    "", "",  "",        "",  "", "", "", "", "",        "ST", "aST",
    "", "L", "vTTdsss", "T", "", "", "", "", "vTTvssSS"};
constexpr Format sdyAttributes[] = {
    "A", "vs",       "AS", "ss", "vo",  "Abv", "aAA",  "A", "S",
    "A", "SAASSSSb", "A",  "A",  "Ass", "A",   "aAAA", "A", "aAAAs"};

template <size_t count>
Format formatOf(const Format (&formats)[count], uint64_t code, Format other) {
  return code < count ? formats[code] : other;
}

class Entries {
public:
  Entries(const std::vector<ContainerEntry> &attributes,
          const std::vector<ContainerEntry> &types)
      : kinds{{attributes, {}, false}, {types, {}, true}} {
    for (Kind &kind : kinds)
      kind.heights.resize(kind.entries.size());
  }

  std::string check() {
    for (Kind &kind : kinds)
      for (uint64_t i = 0; i < kind.entries.size(); ++i)
        if (!height(kind, i, 1))
          return std::move(problem);
    return {};
  }

private:
  struct Kind {
    const std::vector<ContainerEntry> &entries;
    std::vector<unsigned> heights; ///< 0: not known, `open`: being asked for
    bool isType;
  };
  static constexpr unsigned open = std::numeric_limits<unsigned>::max();

  bool wrong(const char *what) {
    problem = what;
    return false;
  }
  bool height(Kind &kind, uint64_t index, unsigned depth);
  bool fields(Format format, Cursor cursor, unsigned depth, unsigned &highest);
  bool field(char what, Cursor &cursor, unsigned depth, unsigned &highest);
  bool part(Kind &kind, Cursor &cursor, unsigned depth, unsigned &highest);
  bool numbers(Cursor &cursor, uint64_t count);
  bool shape(Cursor &cursor);
  bool isNumber(uint64_t type, bool isReal) const;

  Kind kinds[2];
  std::string problem;
};

/// Knows how deep entry `index` of `kind` is nested, which stands `depth` deep.
bool Entries::height(Kind &kind, uint64_t index, unsigned depth) {
  if (index >= kind.entries.size())
    return wrong("a type or attribute has a part that is not there");
  unsigned &known = kind.heights[index];
  if (known == open)
    return wrong("a type or attribute is a part of itself");
  if (known != 0)
    return known + depth <= deepest ||
           wrong("types or attributes are nested too deep");
  if (depth >= deepest)
    return wrong("types or attributes are nested too deep");
  known = open;
  const ContainerEntry &entry = kind.entries[index];
  Cursor cursor(entry.bytes);
  unsigned highest = 0;
  if (entry.isText)
    return wrong("a type or attribute is kept as text");
  std::optional<uint64_t> code = cursor.number();
  if (!code)
    return wrong("a type or attribute has no bytes");
  Format format = "!";
  if (entry.dialect == "builtin")
    format = kind.isType ? formatOf(builtinTypes, *code, "!")
                         : formatOf(builtinAttributes, *code, "!");
  else if (entry.dialect == "vhlo")
    format = kind.isType ? formatOf(vhloTypes, *code, "")
                         : formatOf(vhloAttributes, *code, "");
  else if (entry.dialect == "sdy" && !kind.isType)
    format = formatOf(sdyAttributes, *code, "");
  if (!fields(format, cursor, depth, highest))
    return false;
  kind.heights[index] = highest + 1;
  return true;
}

bool Entries::fields(Format format, Cursor cursor, unsigned depth,
                     unsigned &highest) {
  for (; *format; ++format)
    if (!field(*format, cursor, depth, highest))
      return problem.empty()
                 ? wrong("a type or attribute is longer than its bytes")
                 : false;
  return true;
}

bool Entries::part(Kind &kind, Cursor &cursor, unsigned depth,
                   unsigned &highest) {
  std::optional<uint64_t> index = cursor.number();
  if (!index || !height(kind, *index, depth + 1))
    return false;
  highest = std::max(highest, kind.heights[*index]);
  return true;
}

bool Entries::numbers(Cursor &cursor, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i)
    if (!cursor.number())
      return false;
  return true;
}

/// Dims as signed varints; MLIR's reader takes any, its types do not.
bool Entries::shape(Cursor &cursor) {
  std::optional<uint64_t> count = cursor.count();
  double elements = 1;
  for (uint64_t i = 0; count && i < *count; ++i) {
    std::optional<uint64_t> dim = cursor.number();
    if (!dim)
      return false;
    bool isDynamic = *dim == std::numeric_limits<uint64_t>::max();
    if (*dim & 1 && !isDynamic)
      return wrong("a dim of a tensor type is negative");
    elements *= isDynamic ? 1 : std::max<double>(1, *dim >> 1);
  }
  return count && ((*count <= 32 && elements <= 1e14) ||
                   wrong("a tensor type is too large"));
}

/// Whether it may be the element of a tensor type or, where it is to be real,
/// of a complex one.
bool Entries::isNumber(uint64_t type, bool isReal) const {
  if (type >= kinds[1].entries.size())
    return false;
  const ContainerEntry &entry = kinds[1].entries[type];
  std::optional<uint64_t> code = Cursor(entry.bytes).number();
  constexpr uint64_t index = 1, function = 2, complex = 9, none = 12,
                     tuple = 15;
  if (isReal && code && (*code == index || *code == complex))
    return false;
  return entry.dialect == "builtin" && code && *code != function &&
         *code != none && (*code <= complex || *code > tuple);
}

bool Entries::field(char what, Cursor &cursor, unsigned depth,
                    unsigned &highest) {
  Kind &attributes = kinds[0], &types = kinds[1];
  auto list = [&](Kind &kind, unsigned each) {
    std::optional<uint64_t> count = cursor.count();
    for (uint64_t i = 0; count && i < *count * each; ++i)
      if (!part(kind, cursor, depth, highest))
        return false;
    return count.has_value();
  };
  std::optional<uint64_t> number;
  switch (what) {
  case 'a':
    return part(attributes, cursor, depth, highest);
  case 'A':
    return list(attributes, 1);
  case 'M':
    return list(attributes, 2);
  case 'T':
    return part(types, cursor, depth, highest);
  case 'L':
    return list(types, 1);
  case 'C':
  case 'R': {
    Cursor before = cursor;
    number = before.number();
    return part(types, cursor, depth, highest) &&
           (isNumber(*number, what == 'R') ||
            wrong("an element's type is no number"));
  }
  case 'v':
  case 'd':
  case 's':
    return cursor.number().has_value();
  case 'V':
  case 'S':
    number = cursor.count();
    return number && numbers(cursor, *number);
  case 'b':
    return cursor.byte().has_value();
  case 'B':
    number = cursor.count();
    return number && (cursor.skip(*number), true);
  case 'o': { // the flag is the lowest bit of the index
    number = cursor.number();
    if (!number || !(*number & 1))
      return number.has_value();
    if (!height(attributes, *number >> 1, depth + 1))
      return false;
    highest = std::max(highest, attributes.heights[*number >> 1]);
    return true;
  }
  case 'w':
    number = cursor.number();
    return number && (*number == 0 || part(attributes, cursor, depth, highest));
  case 'D':
    return shape(cursor);
  case 'I': // width, and two bits for the sign
    number = cursor.number();
    return number &&
           ((*number >> 2 <= 64 && *number >> 2 > 0 && (*number & 3) != 3) ||
            wrong("an integer type has a width that none has"));
  case '#':
    cursor.skip(cursor.left());
    return true;
  default:
    return wrong("a type or attribute is of a kind that no portable artefact "
                 "has");
  }
}

} // namespace

std::string checkHloEntries(const std::vector<ContainerEntry> &attributes,
                            const std::vector<ContainerEntry> &types) {
  return Entries(attributes, types).check();
}

} // namespace knapper
