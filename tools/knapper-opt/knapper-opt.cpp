// Runs passes over MLIR text: our dialects and passes on MLIR's own driver.
#include "compiler/registration/Registration.h"

#include "mlir/IR/Dialect.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  knapper::registerAllKnapperDialects(registry);
  knapper::registerAllKnapperPasses();
  mlir::registerTransformsPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "knapper-opt: Knapper's dialects and passes\n", registry));
}
