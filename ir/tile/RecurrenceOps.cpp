#include "ir/tile/RecurrenceOps.h"
#include "ir/config/RecurrenceConfig.h"

using namespace mlir;

namespace knapper::tile {

static Operation::operand_range given(Region &region) {
  return region.front().getTerminator()->getOperands();
}

int64_t RecurrenceOp::run() {
  auto values = given(getWeights());
  auto type =
      values.empty() ? VectorType() : dyn_cast<VectorType>(values[0].getType());
  return type ? type.getDimSize(0) : 1;
}

int64_t RecurrenceOp::states() { return given(getInitial()).size(); }

LogicalResult RecurrenceOp::verify() {
  config::RecurrenceGpuConfig config;
  if (std::string problem = config::parse(getShape(), config); !problem.empty())
    return emitOpError("C2: shape ") << problem;
  for (Region &region : getOperation()->getRegions())
    if (region.front().empty() ||
        !isa<ValuesOp>(region.front().getTerminator()))
      return emitOpError("C3: a region does not end with tile.values");
  Type f32 = Float32Type::get(getContext()),
       index = IndexType::get(getContext());
  size_t matmuls = getSources().size(), states = given(getInitial()).size();
  auto takes = [&](Region &region, size_t indices, size_t floats,
                   ValueRange others = {}) {
    TypeRange types = region.front().getArgumentTypes();
    return types.size() == indices + floats + others.size() &&
           llvm::all_of(types.take_front(indices),
                        [&](Type t) { return t == index; }) &&
           llvm::all_of(types.slice(indices, floats),
                        [&](Type t) { return t == f32; }) &&
           types.take_back(others.size()) == TypeRange(others);
  };
  bool fits = takes(getWeights(), 2, 0) && takes(getInitial(), 2, 0) &&
              takes(getInputs(), 3, 0) &&
              takes(getUpdate(), 3, matmuls + states, given(getInputs())) &&
              takes(getLast(), 2, states) &&
              given(getWeights()).size() == matmuls &&
              given(getUpdate()).size() == states && given(getLast()).empty();
  if (!fits)
    return emitOpError("C3: a region takes or gives something else");
  auto isWeight = [&](Value v) {
    Type element = getElementTypeOrSelf(v.getType());
    return v.getType() == given(getWeights())[0].getType() &&
           (config.packed ? element.isF16() || element.isBF16()
                          : element == f32);
  };
  if (matmuls == 0 || run() < 1 || getUnits() % run() ||
      (config.packed && run() % 2) ||
      !llvm::all_of(given(getWeights()), isWeight))
    return emitOpError("C1: weights are no runs that divide the units");
  if (llvm::any_of(getSources(), [&](int64_t source) {
        return source < 0 || source >= int64_t(states);
      }))
    return emitOpError("C3: a source is no state");
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/RecurrenceOps.cpp.inc"
