//===- HloElastic.h - Tensors whose sizes a call decides -----------------===//
//
// A dim that the program writes as ? is a symbol of ours or an expression of
// such. JAX's names of sizes are kept where its exports say them. Rows that
// compute sizes with numbers are not for such tensors: only those listed in
// HloElastic.cpp see them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/HloNode.h"

namespace knapper {

/// Whether an operand or result has a size that the program does not know.
bool isHloElastic(mlir::Operation *op);

/// Whether an op's result has, at each place, a function of the operands'
/// elements at that place. `kind`: its name without the dialect's.
bool isHloElementwise(llvm::StringRef kind);
/// The row for such an op, `row` itself where it takes sizes that are no
/// numbers; null where there is none.
const HloRow *findHloElasticRow(HloNode &n, const HloRow *row);

/// Whether a value of type `actual` may stand where the program declares
/// `declared`, as hloType gives it.
bool hloFits(mlir::Type declared, mlir::Type actual);
/// The value with the numbers that the program declares for its dims; checked
/// at the run where they are not provable.
mlir::Value hloDeclared(HloNode &n, mlir::Value value, mlir::Type declared);
/// The dims of an elementwise op's operands, which become one shape.
llvm::SmallVector<ts::Dim> hloCommonDims(HloNode &n);

/// Gives an elementwise op's operands these dims; checked at the run where
/// they are not provable.
void alignHloOperands(HloNode &n);

/// JAX's names of the sizes of main's arguments, by argument and dim.
using HloSizeNames = llvm::DenseMap<std::pair<unsigned, unsigned>, std::string>;
HloSizeNames
hloSizeNames(mlir::Block &main,
             llvm::function_ref<mlir::Operation *(llvm::StringRef)> function);

/// The custom_call with which JAX's exports check sizes.
mlir::LogicalResult importHloShapeAssertion(HloNode &n);

llvm::ArrayRef<HloRow> hloElasticRows();

} // namespace knapper
