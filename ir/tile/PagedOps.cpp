#include "ir/tile/PagedOps.h"
#include "ir/config/AttentionGpuConfig.h"

using namespace mlir;

namespace knapper::tile {

LogicalResult PagedAttentionOp::verify() {
  if (getSizes().size() != 4)
    return emitOpError("C1: four sizes, not ") << getSizes().size();
  config::PagedAttentionGpuConfig config;
  if (std::string problem = config::parse(getShape(), config); !problem.empty())
    return emitOpError("C2: shape ") << problem;
  return success();
}

} // namespace knapper::tile

#define GET_OP_CLASSES
#include "ir/tile/PagedOps.cpp.inc"
