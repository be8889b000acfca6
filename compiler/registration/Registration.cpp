#include "compiler/registration/Registration.h"

#include "codegen/math/Math.h"
#include "graph/fold/FoldConstants.h"
#include "graph/fusion/FusionPasses.h"
#include "graph/layout/LayoutPasses.h"
#include "graph/loops/LoopPasses.h"
#include "graph/memory/MemoryPasses.h"
#include "graph/quantize/QuantizePasses.h"
#include "graph/simplify/SimplifyPasses.h"
#include "ir/tensor/Dialect.h"
#include "ir/tile/TileDialect.h"

using namespace mlir;

void knapper::registerAllKnapperDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  scf::SCFDialect, vector::VectorDialect>();
  registry.insert<tile::TileDialect, ts::TsDialect>();
}

void knapper::registerAllKnapperPasses() {
  registerFoldConstantsPass();
  fusion::registerFusionPasses();
  registerExpandMathPass();
  registerLayoutPasses();
  registerLoopsPasses();
  memory::registerMemoryPasses();
  registerQuantizePasses();
  registerSimplifyPasses();
}
