// The chat page: one file without any other, in the program.
#pragma once

#include <string>
#include <string_view>

namespace knapper::serving {

std::string_view chatPage();
/// Its Content-Security-Policy: only its own script and style run, and it talks
/// to its own server alone.
std::string chatPagePolicy();

} // namespace knapper::serving
