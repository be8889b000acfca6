#include "codegen/schedule/Product.h"
#include "graph/fusion/Views.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

bool movesOnly(Operation *op) { return fusion::isReindex(op); }

/// Merges dims that follow one another in memory, innermost first: the longest
/// run becomes one dim; the rest stays outside.
void mergeFree(ArrayRef<fusion::StridedDim> dims, Side &side,
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

std::optional<Side> makeSide(Value operand, ArrayRef<int64_t> batch,
                             ArrayRef<int64_t> contract) {
  auto view = fusion::stridedView(operand, movesOnly);
  if (!view || !isa<BlockArgument>(view->base) || contract.empty())
    return std::nullopt;
  MLIRContext *context = operand.getContext();
  Side side;
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
  Side merged;
  mergeFree(contracted, merged, context);
  if (!merged.outerSizes.empty())
    return std::nullopt;
  side.contract = merged.free;
  side.contractStride = merged.freeStride;
  mergeFree(free, side, context);
  return side;
}

} // namespace

std::optional<Product> analyseProduct(ts::KernelOp kernel) {
  Product product;
  auto dots = kernel.getBody().getOps<ts::DotOp>();
  product.dot = *dots.begin();
  ts::DotOp dot = product.dot;
  Type element = ts::elementTypeOf(dot.getLhs());
  product.bytes = element.isUnsignedInteger(8) &&
                  ts::elementTypeOf(dot.getRhs()).isSignlessInteger(8) &&
                  ts::elementTypeOf(dot.getResult()).isInteger(32);
  if (!product.bytes &&
      (!isa<FloatType>(element) || element != ts::elementTypeOf(dot.getRhs()) ||
       element.isF64()))
    return std::nullopt;
  auto lhs = makeSide(dot.getLhs(), dot.getLhsBatch(), dot.getLhsContract());
  auto rhs = makeSide(dot.getRhs(), dot.getRhsBatch(), dot.getRhsContract());
  if (!lhs || !rhs || !rhs->outerSizes.empty())
    return std::nullopt;
  product.lhs = *lhs;
  product.rhs = *rhs;
  SmallVector<Dim> dims = ts::dimsOf(dot.getLhs());
  for (int64_t dim : dot.getLhsBatch())
    product.batch.push_back(dims[dim]);
  // The columns must be one dim of the result, since tiles run along it.
  unsigned rhsFree = ts::rankOf(dot.getRhs()) - dot.getRhsBatch().size() -
                     dot.getRhsContract().size();
  if (rhsFree != 1)
    return std::nullopt;
  auto constants = kernel->getAttrOfType<DenseBoolArrayAttr>("ts.constants");
  bool isConstant = constants && constants[product.rhs.base.getArgNumber()];
  SmallVector<Dim> matrix = ts::dimsOf(product.rhs.base.getType());
  if (isConstant && product.batch.empty() && dot.getRhs() == product.rhs.base &&
      matrix.size() == 2 && product.rhs.base.hasOneUse()) {
    product.packed = true;
    product.transposed = dot.getRhsContract()[0] == 1;
  }
  if (product.bytes && !product.packed)
    return std::nullopt;
  product.pairs = element.isBF16() && product.lhs.contractStride.isConstant(1);
  return product;
}

} // namespace knapper
