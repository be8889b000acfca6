// The text of many kernels, cut into what each needs. Internal to the folder.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace knapper::cuda {

/// PTX in which a line "// kernel NAME..." stands before the text of these
/// kernels, up to the next such line; what is before the first belongs to all.
/// Refers to the text.
struct PtxPieces {
  /// Without such lines there are no pieces.
  static PtxPieces of(std::string_view text);

  std::string_view head;
  std::vector<std::string_view> pieces;
  std::unordered_map<std::string_view, size_t> pieceOf; // of a kernel

  /// A text of the pieces with these numbers, in their order.
  std::string joined(std::span<const size_t> numbers) const;
};

} // namespace knapper::cuda
