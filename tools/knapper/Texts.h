//===- Texts.h - Tensors of strings, and how NumPy stores them ------------===//
//
// NumPy's strings have one width an array: characters of four bytes ('U'), or
// bytes ('S'); zeros at their ends are no part of them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "tools/knapper/Array.h"

namespace knapper::cli {

/// Element `i` in row-major order of a tensor of strings.
std::string_view textAt(const knapper_tensor &tensor, int64_t i);

/// Between quotes, its beginning if it is long; bytes that are no characters,
/// and what a terminal would obey, as escapes.
std::string quoted(std::string_view text);

/// A row-major array of the strings, as many as the shape has elements.
Expected<Array> textArray(const std::vector<std::string> &texts,
                          std::vector<int64_t> shape, const std::string &where);
/// Of NumPy's elements of `width` characters, or of `width` bytes.
Expected<Array> textArray(std::string_view elements, size_t width, bool wide,
                          std::vector<int64_t> shape, const std::string &where);
/// Short words, the same for the same seed.
Expected<Array> randomTexts(std::vector<int64_t> shape, uint64_t seed,
                            const std::string &where);

/// As NumPy stores them: characters, or bytes where some are no UTF-8.
struct FixedTexts {
  std::string type; ///< "<U7", "|S9"
  std::string elements;
};
/// UserError where they would take more than 4 GiB.
Expected<FixedTexts> fixedTexts(const knapper_tensor &tensor,
                                const std::string &where);

} // namespace knapper::cli
