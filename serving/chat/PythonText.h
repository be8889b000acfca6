// Values as Python writes them, which chat templates print.
#pragma once

#include <string>
#include <string_view>

namespace knapper::serving {

/// `repr` of a text, which is valid UTF-8: quoted, with what cannot be seen
/// escaped.
std::string pythonRepr(std::string_view text);
/// `repr` of a number: the shortest digits that give it again.
std::string pythonRepr(double number);

} // namespace knapper::serving
