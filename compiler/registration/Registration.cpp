#include "compiler/registration/Registration.h"

#include "codegen/lower/math/Math.h"
#include "graph/fold/FoldConstants.h"
#include "graph/fusion/Passes.h"
#include "graph/layout/Passes.h"
#include "graph/memory/Passes.h"
#include "graph/quantize/Passes.h"
#include "graph/simplify/Passes.h"
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
  memory::registerMemoryPasses();
  registerQuantizePasses();
  registerSimplifyPasses();
}
