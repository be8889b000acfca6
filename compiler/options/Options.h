//===- Options.h - The compiler's settings, from one table ----------------===//
#pragma once

#include "runtime/base/Error.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace knapper {

struct Options {
#define OPTION(TYPE, FIELD, NAME, DEFAULT, VALUES, HELP) TYPE FIELD = DEFAULT;
#include "compiler/options/Options.def"
#undef OPTION
};

/// A row of the table, for help texts and documentation.
struct OptionRow {
  std::string_view name, type, fallback, values, help;
};
std::span<const OptionRow> optionRows();

/// A name that an option had before, which is still read.
struct FormerName {
  std::string_view former, name;
};
std::span<const FormerName> formerNames();

/// Sets one option from text. An unknown name or a bad value is a UserError
/// that lists what is valid. Booleans take true/false/1/0/on/off.
Status setOption(Options &options, std::string_view name,
                 std::string_view value);

/// Applies KNAPPER_<NAME> variables of the environment (dashes as underscores);
/// an empty one counts as not set.
Status setOptionsFromEnvironment(Options &options);

/// "a,b , c" as its parts; empty parts dropped.
std::vector<std::string> splitList(std::string_view text);

/// "batch=1,seq=128" as pairs.
Expected<std::vector<std::pair<std::string, int64_t>>>
parseDims(std::string_view text);

/// UserError where a name has two values.
Status checkGivenOnce(std::span<const std::pair<std::string, int64_t>> dims);

} // namespace knapper
