//===- TimesTable.h - Measured kernels as text ----------------------------===//
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace knapper::cli {

/// The longest kernels of `times` (compiler/report/Times.h), a line each, with
/// what would make them faster below.
std::string timesTable(const nlohmann::ordered_json &times);

/// Rows of two modules' kernels (compiler/report/Comparison.h), those that
/// differ most first, and the total.
std::string comparisonTable(const nlohmann::ordered_json &comparison);

} // namespace knapper::cli
