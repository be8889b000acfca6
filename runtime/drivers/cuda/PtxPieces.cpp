#include "runtime/drivers/cuda/PtxPieces.h"

namespace knapper::cuda {

PtxPieces PtxPieces::of(std::string_view text) {
  constexpr std::string_view mark = "\n// kernel ";
  PtxPieces result;
  size_t begin = text.find(mark);
  result.head = text.substr(0, begin);
  while (begin != std::string_view::npos) {
    size_t end = text.find(mark, begin + 1);
    std::string_view piece = text.substr(begin, end - begin);
    std::string_view line =
        piece.substr(mark.size(), piece.find('\n', 1) - mark.size());
    while (!line.empty()) {
      size_t space = std::min(line.find(' '), line.size());
      if (space > 0)
        result.pieceOf.emplace(line.substr(0, space), result.pieces.size());
      line.remove_prefix(std::min(space + 1, line.size()));
    }
    result.pieces.push_back(piece);
    begin = end;
  }
  return result;
}

std::string PtxPieces::joined(std::span<const size_t> numbers) const {
  std::string text(head);
  for (size_t number : numbers)
    text += pieces[number];
  text += '\n';
  return text;
}

} // namespace knapper::cuda
