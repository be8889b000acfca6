#include "ir/tile/PackedOps.h"
#include "ir/config/PackedMatmulGpuConfig.h"

using namespace mlir;

namespace knapper::tile {

LogicalResult PackedMatmulOp::verify() {
  Block &body = getBody().front();
  if (body.getNumArguments() != 3 || !body.getArgument(0).getType().isF32() ||
      !body.getArgument(1).getType().isIndex() ||
      !body.getArgument(2).getType().isIndex())
    return emitOpError("C1: the region takes an f32, row and column");
  config::PackedMatmulGpuConfig config;
  std::string problem = config::parse(getShape(), config);
  if (problem.empty())
    problem = config.problem();
  if (!problem.empty())
    return emitOpError("C2: shape ") << problem;
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/PackedOps.cpp.inc"
