// Tile programs to LLVM IR or assembly text, for lit tests and for reading.
//   knapper-translate --tile-to-llvmir [--isa=x86-64-v4] [--optimise] k.mlir
//   knapper-translate --tile-to-asm [--isa=x86-64-v3] k.mlir
#include "codegen/lower/Lower.h"
#include "compiler/registration/Registration.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/Object.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace knapper;

static llvm::cl::opt<std::string> isaName("isa",
                                          llvm::cl::desc("Instruction set"),
                                          llvm::cl::init("x86-64-v4"));
static llvm::cl::opt<bool> optimiseIr("optimise",
                                      llvm::cl::desc("Optimise LLVM IR"));

static LogicalResult translate(Operation *op, llvm::raw_ostream &out,
                               bool assembly) {
  auto fail = [&](const Error &error) {
    return op->emitError(error.message());
  };
  auto target = cpuTarget(std::string(isaName));
  if (!target)
    return fail(target.error());
  auto emitter = ObjectEmitter::create(*target);
  if (!emitter)
    return fail(emitter.error());
  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  (*emitter)->prepare(module);
  for (tile::FuncOp func : cast<ModuleOp>(op).getOps<tile::FuncOp>())
    if (failed(lowerToCpu(func, *target, module)))
      return failure();
  if (assembly || optimiseIr)
    (*emitter)->optimise(module);
  if (!assembly) {
    module.print(out, nullptr);
    return mlir::success();
  }
  auto text = (*emitter)->emit(module, /*assembly=*/true);
  if (!text)
    return fail(text.error());
  out << *text;
  return mlir::success();
}

int main(int argc, char **argv) {
  TranslateFromMLIRRegistration toIr(
      "tile-to-llvmir", "tile functions to LLVM IR",
      [](Operation *op, llvm::raw_ostream &out) {
        return translate(op, out, false);
      },
      registerAllKnapperDialects);
  TranslateFromMLIRRegistration toAssembly(
      "tile-to-asm", "tile functions to assembly of --isa",
      [](Operation *op, llvm::raw_ostream &out) {
        return translate(op, out, true);
      },
      registerAllKnapperDialects);
  return failed(mlirTranslateMain(argc, argv, "knapper-translate\n"));
}
