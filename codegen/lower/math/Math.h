// Vector mathematics: elementary functions as arithmetic, without libraries.
//
// `expandMath` replaces what has no instruction by arithmetic that lowers to
// instructions alone on every target with fused multiply-add: `arith`,
// `math.fma`, a few native `math` ops (absf, floor, ceil, trunc, roundeven,
// sqrt, copysign, ctlz, cttz, ctpop), and `scf.if`/`scf.while` for rare
// arguments. So it runs before control flow is lowered.
//
// Types: scalars and vectors of any rank. f16 and bf16 are computed in f32,
// whose conversions are the caller's to lower. Results for NaN, infinities, -0
// and denormals are IEEE 754's; error bounds are in docs/performance/math.md.
// The functions assume that denormals are not flushed to zero.
//
// The `build*` functions emit one expansion at the builder's insertion point
// and return a value of the argument's type. Nothing here fails or keeps state.

#ifndef KNAPPER_CODEGEN_LOWER_MATH_MATH_H
#define KNAPPER_CODEGEN_LOWER_MATH_MATH_H

#include "mlir/IR/Builders.h"

#include <array>
#include <memory>
#include <utility>

namespace mlir {
class Pass;
} // namespace mlir

namespace knapper {

/// Expands, below `root`, in one walk: the `math` ops without an instruction
/// and `arith.remf`. Integer division is left: lowering guards it.
void expandMath(mlir::Operation *root);

/// `expandMath` as a pass on any op: `knapper-expand-math`.
std::unique_ptr<mlir::Pass> createExpandMathPass();
void registerExpandMathPass();

using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;

Value buildExp(OpBuilder &b, Location loc, Value x);
Value buildExp2(OpBuilder &b, Location loc, Value x);
Value buildExpm1(OpBuilder &b, Location loc, Value x);
Value buildLog(OpBuilder &b, Location loc, Value x);
Value buildLog2(OpBuilder &b, Location loc, Value x);
Value buildLog10(OpBuilder &b, Location loc, Value x);
Value buildLog1p(OpBuilder &b, Location loc, Value x);
Value buildSin(OpBuilder &b, Location loc, Value x);
Value buildCos(OpBuilder &b, Location loc, Value x);
Value buildTan(OpBuilder &b, Location loc, Value x);
/// (sin x, cos x).
std::pair<Value, Value> buildSincos(OpBuilder &b, Location loc, Value x);
Value buildAsin(OpBuilder &b, Location loc, Value x);
Value buildAcos(OpBuilder &b, Location loc, Value x);
Value buildAtan(OpBuilder &b, Location loc, Value x);
Value buildAtan2(OpBuilder &b, Location loc, Value y, Value x);
Value buildSinh(OpBuilder &b, Location loc, Value x);
Value buildCosh(OpBuilder &b, Location loc, Value x);
Value buildTanh(OpBuilder &b, Location loc, Value x);
Value buildAsinh(OpBuilder &b, Location loc, Value x);
Value buildAcosh(OpBuilder &b, Location loc, Value x);
Value buildAtanh(OpBuilder &b, Location loc, Value x);
Value buildErf(OpBuilder &b, Location loc, Value x);
Value buildErfc(OpBuilder &b, Location loc, Value x);
Value buildCbrt(OpBuilder &b, Location loc, Value x);
Value buildRsqrt(OpBuilder &b, Location loc, Value x);
/// Half away from zero.
Value buildRound(OpBuilder &b, Location loc, Value x);
/// x^y; a constant exponent of 1, 2, 3, -1 or 1/2 becomes products or a root.
Value buildPow(OpBuilder &b, Location loc, Value x, Value y);
/// The exact remainder of x / y, with the sign of x (C's fmod).
Value buildFmod(OpBuilder &b, Location loc, Value x, Value y);

/// 1 / (1 + exp(-x)).
Value buildSigmoid(OpBuilder &b, Location loc, Value x);
/// x / 2 (1 + erf(x / sqrt(2))).
Value buildGeluErf(OpBuilder &b, Location loc, Value x);
/// x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Value buildGeluTanh(OpBuilder &b, Location loc, Value x);

/// One block of the counter-based generator Philox 4x32-10: four words of
/// random bits per lane, a function of counter and key alone. All are i32 of
/// one shape.
std::array<Value, 4> buildPhilox(OpBuilder &b, Location loc,
                                 std::array<Value, 4> counter,
                                 std::array<Value, 2> key);
/// Random i32 bits as f32 uniform in [0, 1), multiples of 2^-24.
Value buildUniform(OpBuilder &b, Location loc, Value bits);
/// Two independent standard normal f32 from two words of bits (Box and Muller).
std::pair<Value, Value> buildNormal(OpBuilder &b, Location loc, Value bits0,
                                    Value bits1);

} // namespace knapper

#endif // KNAPPER_CODEGEN_LOWER_MATH_MATH_H
