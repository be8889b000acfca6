// Discrete Fourier transforms of rows, as ts.dft.
#pragma once

#include "frontends/common/NodeBuilder.h"

namespace knapper {

/// What of a row is real numbers. A spectrum of real numbers is symmetric: its
/// first length / 2 + 1 elements stand for it.
enum class FourierKind : uint8_t { complex, fromReal, toReal };

/// The sum over j of x[j] exp(sign 2 pi i j k / length) of each row, without a
/// factor; sign: plus if `inverse`. Complex numbers have a last dim of two,
/// their parts: x and the result are [rows, length, 2], but [rows, length]
/// where they are real. Unsupported (null): known lengths with a prime factor
/// above 2048.
mlir::Value fourierTransform(NodeBuilder &n, mlir::Value x, ts::Dim length,
                             bool inverse, FourierKind kind);

/// [.., length, 2] of the two parts.
mlir::Value complexOf(NodeBuilder &n, mlir::Value re, mlir::Value im);
/// Part 0 or 1 of [.., length, 2].
mlir::Value partOf(NodeBuilder &n, mlir::Value x, int64_t part);

} // namespace knapper
