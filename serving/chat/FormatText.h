// Texts that chat templates make by `%` and `format`, and in other letter
// cases.
#pragma once

#include "jinja/value.h"

#include <span>

namespace knapper::serving {

/// Python's `format % values`, with the conversions d i u o x X e E f F g G c r
/// s, "%%", flags, width and precision. Each "%(name)s" takes the value of
/// that name. What comes of a text that is the user's stays the user's. Throws
/// where Python raises.
jinja::string
formatted(const jinja::string &format, std::span<const jinja::value> values,
          std::span<const std::pair<std::string, jinja::value>> names);

/// The right side of `%`: the items of a tuple or an object, or one value.
jinja::string formatted(const jinja::string &format,
                        const jinja::value &values);

/// Python's `upper`, `lower`, `capitalize` and `title`, and the filter `title`.
/// For the last a word begins behind "-", white space and opening brackets, for
/// the method at each letter that follows none.
enum class LetterCase : uint8_t { upper, lower, capital, title, titleFilter };
jinja::string inCase(jinja::string text, LetterCase wanted);

} // namespace knapper::serving
