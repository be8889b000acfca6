//===- Html.h - The report of a module as one page ------------------------===//
#pragma once

#include <string>
#include <string_view>

namespace knapper {

/// One self-contained HTML file (no network, no scripts from elsewhere) from
/// the JSON of knapper_module_describe. Every name in it is escaped.
std::string reportHtml(std::string_view descriptionJson);

} // namespace knapper
