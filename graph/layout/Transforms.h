//===- Transforms.h - How ts.dft is computed ------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// Prepares each `ts.dft` of the function.
///
/// `passes`: the target has a schedule that computes a transform in passes. A
/// transform that it takes gets the twiddle factors of its plan as an operand.
/// Real rows of odd length become complex rows first.
///
/// Every other transform becomes matmuls with DFT matrices. If the length n has
/// a divisor d, it is split by Cooley and Tukey (Mathematics of Computation 19,
/// 1965): n / d transforms of d elements, twiddle factors, then d transforms of
/// n / d elements.
void lowerTransforms(mlir::func::FuncOp function, bool passes);

} // namespace knapper
