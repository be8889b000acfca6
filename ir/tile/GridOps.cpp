#include "ir/tile/GridOps.h"

using namespace mlir;

namespace knapper::tile {

LogicalResult AtomicOp::verify() {
  using K = vector::CombiningKind;
  Type element = getElementTypeOrSelf(getValue().getType());
  K kind = getKind();
  bool known =
      kind == K::ADD || kind == K::MUL ||
      (isa<FloatType>(element)
           ? kind == K::MAXIMUMF || kind == K::MINIMUMF
           : kind == K::MAXSI || kind == K::MINSI || kind == K::MAXUI ||
                 kind == K::MINUI || kind == K::AND || kind == K::OR);
  if (!known)
    return emitOpError("C1: the kind is ")
           << vector::stringifyCombiningKind(kind) << " of " << element;
  if (element != getBuffer().getType().getElementType())
    return emitOpError("C2: ") << element << " for " << getBuffer().getType();
  return success();
}

static LogicalResult verifyWords(Operation *op, BufferType state) {
  if (state.getElementType().isInteger(64))
    return success();
  return op->emitOpError("C1: words are ") << state.getElementType();
}

LogicalResult TicketOp::verify() {
  return verifyWords(*this, getState().getType());
}

LogicalResult LookBackOp::verify() {
  if (failed(verifyWords(*this, getState().getType())))
    return failure();
  auto tile = dyn_cast<VectorType>(getValue().getType());
  if (bool(tile) != getLanes().has_value() ||
      (tile &&
       (*getLanes() < 1 || int64_t(*getLanes()) > tile.getNumElements())))
    return emitOpError("C3: lanes of ") << getValue().getType();
  return verifyScan(*this, getKind(), getValue().getType());
}

LogicalResult RadixPassOp::verify() {
  for (Value buffer : {getFrom(), getTo(), getState()})
    if (failed(verifyWords(*this, cast<BufferType>(buffer.getType()))))
      return failure();
  constexpr uint64_t mostBits = 56;
  if (getBit() > mostBits)
    return emitOpError("C2: the bits begin at ") << getBit();
  if (int64_t(getItems()) < 1)
    return emitOpError("C3: ") << int64_t(getItems()) << " items";
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/GridOps.cpp.inc"
