#include "codegen/schedule/matmul/MatmulProblem.h"
#include "graph/fusion/Views.h"
#include "ir/tensor/GroupedMatmul.h"
#include "ir/tensor/PackedDot.h"
#include "ir/tensor/ScaledDot.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

bool movesOnly(Operation *op) { return fusion::isReindex(op); }

/// Merges dims that follow one another in memory, innermost first: the longest
/// run becomes one dim; the rest stays outside.
void mergeFree(ArrayRef<fusion::StridedDim> dims, MatmulOperand &side,
               MLIRContext *context) {
  Dim one = Dim::constant(context, 1);
  side.free = one;
  side.freeStride = one;
  bool open = true, first = true;
  for (const fusion::StridedDim &dim : llvm::reverse(dims)) {
    if (dim.size.isConstant(1))
      continue;
    if (open && (first || dim.stride == side.freeStride * side.free)) {
      if (first)
        side.freeStride = dim.stride;
      side.free = side.free * dim.size;
      first = false;
      continue;
    }
    open = false;
    side.outerSizes.insert(side.outerSizes.begin(), dim.size);
    side.outerStrides.insert(side.outerStrides.begin(), dim.stride);
  }
}

std::optional<MatmulOperand> makeSide(Value operand, ArrayRef<int64_t> batch,
                                      ArrayRef<int64_t> contract) {
  auto view = fusion::stridedView(operand, movesOnly);
  if (!view || !isa<BlockArgument>(view->base) || contract.empty())
    return std::nullopt;
  MLIRContext *context = operand.getContext();
  MatmulOperand side;
  side.base = cast<BlockArgument>(view->base);
  side.offset = view->offset;
  for (int64_t dim : batch)
    side.batchStrides.push_back(view->dims[dim].stride);
  SmallVector<fusion::StridedDim> free, contracted;
  for (auto [i, dim] : llvm::enumerate(view->dims))
    if (!llvm::is_contained(batch, static_cast<int64_t>(i)) &&
        !llvm::is_contained(contract, static_cast<int64_t>(i)))
      free.push_back(dim);
  for (int64_t dim : contract)
    contracted.push_back(view->dims[dim]);
  MatmulOperand merged;
  mergeFree(contracted, merged, context);
  if (!merged.outerSizes.empty())
    return std::nullopt;
  side.contract = merged.free;
  side.contractStride = merged.freeStride;
  mergeFree(free, side, context);
  return side;
}

bool isConstant(ts::KernelOp kernel, Value input) {
  auto argument = dyn_cast<BlockArgument>(input);
  auto constants = kernel->getAttrOfType<DenseBoolArrayAttr>("ts.constants");
  return argument && constants && constants[argument.getArgNumber()];
}

std::optional<MatmulProblem> analyseScaled(ts::KernelOp kernel,
                                           ts::ScaledDotOp dot) {
  for (Value operand : dot->getOperands().drop_front())
    if (!isConstant(kernel, operand) || !operand.hasOneUse())
      return std::nullopt;
  int64_t last = ts::rankOf(dot.getInput()) - 1;
  auto lhs = makeSide(dot.getInput(), {}, {last});
  auto rhs = makeSide(dot.getWeight(), {}, {0});
  if (!lhs || !rhs)
    return std::nullopt;
  MatmulProblem matmul;
  matmul.result = dot.getResult();
  matmul.rows = ts::dimsOf(dot.getInput());
  matmul.rows.pop_back();
  matmul.lhs = *lhs;
  matmul.rhs = *rhs;
  matmul.packed = true;
  matmul.group = static_cast<int64_t>(dot.getGroup());
  matmul.nibbles = ts::elementTypeOf(dot.getWeight()).isInteger(4);
  matmul.scale = cast<BlockArgument>(dot.getScale());
  if (dot.getZero())
    matmul.zero = cast<BlockArgument>(dot.getZero());
  return matmul;
}

/// By the floats that were made of the integers.
std::optional<MatmulProblem> analyseExpanded(ts::PackedDotOp dot) {
  if (!dot.getExpanded())
    return std::nullopt;
  MatmulProblem matmul;
  matmul.result = dot.getResult();
  matmul.rows = ts::dimsOf(dot.getInput());
  matmul.rows.pop_back();
  auto lhs = makeSide(dot.getInput(), {}, {ts::rankOf(dot.getInput()) - 1});
  auto rhs = makeSide(dot.getExpanded(), {}, {1});
  if (!lhs || !rhs)
    return std::nullopt;
  matmul.lhs = *lhs;
  matmul.rhs = *rhs;
  // (Its type says how many rows there are in all cases.)
  matmul.rhs.free = ts::dimOf(dot.getWeight(), 0);
  matmul.rhs.freeStride = rhs->contract;
  matmul.rhs.outerSizes.clear();
  matmul.rhs.outerStrides.clear();
  return matmul;
}

std::optional<MatmulProblem> analyseGrouped(ts::KernelOp kernel,
                                            ts::GroupedMatmulOp op) {
  MatmulProblem matmul;
  matmul.result = op.getResult();
  auto lhs = makeSide(op.getTokens(), {}, {1});
  auto rhs = makeSide(op.getWeights(), {0}, {op.getTransposed() ? 2 : 1});
  if (!lhs || !rhs || !isa<BlockArgument>(op.getEnds()))
    return std::nullopt;
  matmul.lhs = *lhs;
  matmul.rhs = *rhs;
  matmul.batch = {ts::dimOf(op.getWeights(), 0)};
  matmul.lhs.batchStrides = {lhs->free.like(0)};
  matmul.rows = {ts::dimOf(op.getTokens(), 0)};
  matmul.ends = cast<BlockArgument>(op.getEnds());
  // Panels of a transposed matrix lie one expert's after another's.
  int64_t columns = matmul.rhs.free.asConstant().value_or(0);
  matmul.packed = isConstant(kernel, matmul.rhs.base) &&
                  op.getWeights() == matmul.rhs.base &&
                  matmul.rhs.base.hasOneUse() && matmul.batch[0].asConstant() &&
                  matmul.rhs.contract.asConstant() && columns > 0 &&
                  (!op.getTransposed() || columns % 16 == 0);
  matmul.transposed = op.getTransposed();
  matmul.pairs = ts::elementTypeOf(op.getTokens()).isBF16() &&
                 matmul.lhs.contractStride.isConstant(1);
  return matmul;
}

} // namespace

Dim groupedBlocks(const MatmulProblem &matmul, int64_t height) {
  // Of each expert one block may be cut; none is empty.
  Dim rows = matmul.lhs.free;
  return (rows.floorDiv(rows.like(height)) + matmul.batch[0]).min(rows);
}

std::optional<MatmulProblem> analyseMatmul(ts::KernelOp kernel) {
  auto scaled = kernel.getBody().getOps<ts::ScaledDotOp>();
  if (!scaled.empty())
    return analyseScaled(kernel, *scaled.begin());
  auto grouped = kernel.getBody().getOps<ts::GroupedMatmulOp>();
  if (!grouped.empty())
    return analyseGrouped(kernel, *grouped.begin());
  auto integers = kernel.getBody().getOps<ts::PackedDotOp>();
  if (!integers.empty())
    return analyseExpanded(*integers.begin());
  MatmulProblem matmul;
  auto dots = kernel.getBody().getOps<ts::DotOp>();
  ts::DotOp dot = *dots.begin();
  matmul.result = dot.getResult();
  Type element = ts::elementTypeOf(dot.getLhs());
  matmul.bytes = element.isUnsignedInteger(8) &&
                 ts::elementTypeOf(dot.getRhs()).isSignlessInteger(8) &&
                 ts::elementTypeOf(dot.getResult()).isInteger(32);
  if (!matmul.bytes &&
      (!isa<FloatType>(element) || element != ts::elementTypeOf(dot.getRhs()) ||
       element.isF64() || ts::elementTypeOf(dot.getResult()).isF64()))
    return std::nullopt;
  auto lhs = makeSide(dot.getLhs(), dot.getLhsBatch(), dot.getLhsContract());
  auto rhs = makeSide(dot.getRhs(), dot.getRhsBatch(), dot.getRhsContract());
  if (!lhs || !rhs || !rhs->outerSizes.empty())
    return std::nullopt;
  matmul.lhs = *lhs;
  matmul.rhs = *rhs;
  SmallVector<Dim> dims = ts::dimsOf(dot.getLhs());
  for (int64_t dim : dot.getLhsBatch())
    matmul.batch.push_back(dims[dim]);
  for (auto [i, dim] : llvm::enumerate(dims))
    if (!llvm::is_contained(dot.getLhsBatch(), static_cast<int64_t>(i)) &&
        !llvm::is_contained(dot.getLhsContract(), static_cast<int64_t>(i)))
      matmul.rows.push_back(dim);
  // The columns must be one dim of the result, since tiles run along it.
  unsigned rhsFree = ts::rankOf(dot.getRhs()) - dot.getRhsBatch().size() -
                     dot.getRhsContract().size();
  if (rhsFree != 1)
    return std::nullopt;
  SmallVector<Dim> matrix = ts::dimsOf(matmul.rhs.base.getType());
  if (isConstant(kernel, matmul.rhs.base) && matmul.batch.empty() &&
      dot.getRhs() == matmul.rhs.base && matrix.size() == 2 &&
      matmul.rhs.base.hasOneUse()) {
    matmul.packed = true;
    matmul.transposed = dot.getRhsContract()[0] == 1;
  }
  if (matmul.bytes && !matmul.packed)
    return std::nullopt;
  matmul.pairs = element.isBF16() && matmul.lhs.contractStride.isConstant(1);
  return matmul;
}

} // namespace knapper
