#include "ir/tensor/Fourier.h"
#include "ir/tensor/FourierPlan.h"
#include "ir/tensor/OpaqueIndexing.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::ts;

#define GET_OP_CLASSES
#include "ir/tensor/Fourier.cpp.inc"

LogicalResult DftOp::inferReturnTypes(MLIRContext *context,
                                      std::optional<Location> location,
                                      Adaptor op,
                                      SmallVectorImpl<Type> &types) {
  if (op.getFromReal() && op.getToReal())
    return emitOptionalError(location, "(C1) from real and to real numbers");
  Dim length(op.getLength());
  Dim complexNumbers = length * 2,
      half = (length.floorDiv(length.like(2)) + 1) * 2;
  SmallVector<Dim> dims = dimsOf(op.getInput());
  Dim wanted = op.getFromReal() ? length
               : op.getToReal() ? half
                                : complexNumbers;
  if (dims.size() != 2 || !(dims[1] == wanted))
    return emitOptionalError(location, "(C2) input ",
                             shapeText(op.getInput().getType()),
                             ", not rows of ", wanted.str());
  dims[1] = op.getFromReal() ? half : op.getToReal() ? length : complexNumbers;
  types.push_back(tensorType(context, dims, elementTypeOf(op.getInput())));
  return success();
}

LogicalResult DftOp::verify() {
  std::optional<int64_t> length = Dim(getLength()).asConstant();
  if (length && *length < 1)
    return emitOpError("(C3) of ") << *length << " elements";
  Value table = getTable();
  if (!table)
    return success();
  std::optional<FourierPlan> plan;
  if (length)
    plan = fourierPlan(*length, getFromReal() || getToReal());
  if (!plan || rankOf(table) != 1 ||
      !dimOf(table, 0).isConstant(plan->tableSize) ||
      elementTypeOf(table) != elementTypeOf(getInput()))
    return emitOpError("(C4) the table is ") << table.getType();
  return success();
}

Indexing DftOp::indexing() { return opaqueIndexing(*this); }
