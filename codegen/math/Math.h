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
// Nothing here fails or keeps state.
#pragma once

#include "mlir/IR/Builders.h"

#include <array>
#include <memory>
#include <utility>

namespace mlir {
class Pass;
} // namespace mlir

namespace knapper {

/// A sine or cosine with `fastmath<afn>` is rounded to 16 bits afterwards: it
/// keeps 2e-6 of the result. With `ninf` its argument stands for an f16, so
/// from 65520 on it is an infinity. A root with `afn` stays: an instruction.
/// A power with `afn` keeps 2e-5.
///
/// Expands, below `root`, in one walk: the `math` ops without an instruction
/// and `arith.remf`. Integer division is left: lowering guards it. With
/// `spread` the lanes of vectors are spread over threads, so none is taken out
/// by its number.
void expandMath(mlir::Operation *root, bool spread);

/// `expandMath` as a pass on any op: `knapper-expand-math`.
std::unique_ptr<mlir::Pass> createExpandMathPass();
void registerExpandMathPass();

using mlir::Location;
using mlir::OpBuilder;
using mlir::Value;

// Forms of activations that are shorter than their definition by `math` ops, in
// the element type of `x`; emitted at the insertion point.

/// x / 2 (1 + erf(x / sqrt(2))).
Value buildGeluErf(OpBuilder &b, Location loc, Value x);
/// The same with a `math.exp2 fastmath<afn>` in f32, for targets that have it
/// as an instruction: `expandMath` leaves that.
/// `half`: for a result that is rounded to 16 bits, within 5e-5 of it.
Value buildGeluErfByExp2(OpBuilder &b, Location loc, Value x, bool half);
/// x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Value buildGeluTanh(OpBuilder &b, Location loc, Value x);

/// The same, and 1 / (1 + exp(-x)), for results that are rounded to 16 bits on
/// targets that have `math.exp2 fastmath<afn>` and `arith.divf fastmath<afn>`
/// (of a divisor of 1 and more) as instructions. Within 1e-5 of the result.
Value buildGeluTanhByExp2(OpBuilder &b, Location loc, Value x);
Value buildSigmoidByExp2(OpBuilder &b, Location loc, Value x);
/// The same of the hyperbolic tangent, within 1e-6 of the result.
Value buildTanhByExp2(OpBuilder &b, Location loc, Value x);

/// e^x - 1 for such results, within 1e-5 of it.
Value buildExpm1ByExp2(OpBuilder &b, Location loc, Value x);

/// log(1 + e^x), and the hyperbolic tangent of that, which Mish multiplies.
Value buildSoftplus(OpBuilder &b, Location loc, Value x);
Value buildTanhOfSoftplus(OpBuilder &b, Location loc, Value x);
/// The same for results that are rounded to 16 bits, within 5e-6 of them.
Value buildSoftplusByExp2(OpBuilder &b, Location loc, Value x);
Value buildTanhOfSoftplusByExp2(OpBuilder &b, Location loc, Value x);

/// exp(x) for x <= 0 or NaN, such as an element of a row minus the largest one.
/// f32: within 2 + |x| ulp, 0 below 2^-126.
Value buildExpNonPositive(OpBuilder &b, Location loc, Value x);

/// exp(x) of an f32 as accurately, for positive x too as long as it is finite;
/// infinity or NaN where it is not. It takes half the arithmetic where `lookup`
/// (the words of a table by the low bits of i32 indices) and `scaleByPower`
/// (x 2^floor(power)) are one instruction each.
using Lookup =
    llvm::function_ref<Value(Value index, llvm::ArrayRef<int32_t> table)>;
using ScaleByPower = llvm::function_ref<Value(Value x, Value power)>;
Value buildExpBelowOverflow(OpBuilder &b, Location loc, Value x, Lookup lookup,
                            ScaleByPower scaleByPower);

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
