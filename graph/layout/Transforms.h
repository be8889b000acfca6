//===- Transforms.h - How ts.dft is computed ------------------------------===//
#pragma once

namespace mlir::func {
class FuncOp;
}

namespace knapper {

/// What a schedule of the target computes (`passes`) gets the table of its
/// plan; real rows of odd length become complex ones first. All others become
/// matmuls with matrices of roots of one. Those whose length has a divisor d
/// are taken apart (Cooley and Tukey, Mathematics of Computation 19, 1965):
/// length / d transforms of d elements, factors, d of length / d.
void lowerTransforms(mlir::func::FuncOp function, bool passes);

} // namespace knapper
