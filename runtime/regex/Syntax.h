// The regular expressions that ONNX means, those of RE2, for PCRE2.
#pragma once

#include <string>
#include <string_view>

namespace knapper {

/// The pattern as PCRE2 reads it. What RE2 does not have (back references,
/// look-around, recursion, possessive repetitions, verbs) is refused: with
/// these the time of a match need not be linear in the text. Then `problem`
/// says why.
std::string translatePattern(std::string_view pattern, std::string &problem);

} // namespace knapper
