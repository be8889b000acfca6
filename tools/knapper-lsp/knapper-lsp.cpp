// A language server for MLIR text: our dialects on MLIR's own server. It speaks
// the Language Server Protocol on its standard streams.
#include "compiler/registration/Registration.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  knapper::registerAllKnapperDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
