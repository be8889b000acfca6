// Between formats, for tests and for reading: tile programs to LLVM IR or
// assembly text, ONNX models to tensor IR.
//   knapper-translate --tile-to-llvmir [--isa=x86-64-v4] [--optimise] k.mlir
//   knapper-translate --tile-to-asm [--isa=x86-64-v3] k.mlir
//   knapper-translate --import-onnx [--dim=name=value]... model.onnx
//   knapper-translate --inspect-onnx model.onnx
//   knapper-translate --kernels-to-tile [--isa=sm_90a] formed.mlir
//   knapper-translate --tile-to-ptx [--isa=sm_80] k.mlir
#include "codegen/lower/common/Lower.h"
#include "codegen/schedule/core/Schedule.h"
#include "compiler/registration/Registration.h"
#include "frontends/onnx/ImportOnnx.h"
#include "frontends/onnx/InspectOnnx.h"
#include "targets/cpu/CpuTarget.h"
#include "targets/cpu/Object.h"
#include "targets/cuda/CudaTarget.h"
#include "targets/cuda/Ptx.h"

#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

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
    return emitError(op->getLoc(), error.message());
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

static llvm::cl::list<std::string>
    dims("dim", llvm::cl::desc("Fix a symbolic dim (name=value)"));

/// The model's path: external data is found beside it.
static OnnxSource sourceOf(llvm::SourceMgr &sources) {
  OnnxSource source;
  source.path = sources.getMemoryBuffer(1)->getBufferIdentifier().str();
  return source;
}

static OwningOpRef<Operation *> importModel(llvm::SourceMgr &sources,
                                            MLIRContext *context) {
  OnnxImportOptions options;
  for (StringRef dim : dims) {
    auto [name, text] = dim.split('=');
    int64_t value = 0;
    if (text.getAsInteger(10, value)) {
      llvm::errs() << "error: --dim takes name=value, not '" << dim << "'\n";
      return {};
    }
    options.dims.push_back({name.str(), value});
  }
  ModelBuffers buffers;
  auto module = importOnnx(*context, sourceOf(sources), options, &buffers);
  if (!module) {
    llvm::errs() << "error: " << module.error().message() << "\n";
    return {};
  }
  return std::move(*module);
}

static LogicalResult inspectModel(llvm::SourceMgr &sources,
                                  llvm::raw_ostream &out) {
  Expected<std::string> text = inspectOnnx(sourceOf(sources));
  if (!text) {
    llvm::errs() << "error: " << text.error().message() << "\n";
    return failure();
  }
  out << *text << "\n";
  return mlir::success();
}

/// Every schedule of every kernel, as tile functions kernel0_0, kernel0_1, ...
static LogicalResult kernelsToTile(Operation *op, llvm::raw_ostream &out) {
  auto target = StringRef(isaName).starts_with("sm_")
                    ? cudaTarget(isaName)
                    : cpuTarget(isaName.getValue());
  if (!target)
    return emitError(op->getLoc(), target.error().message());
  op->getContext()->loadDialect<tile::TileDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(op->getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  unsigned count = 0;
  LogicalResult result = mlir::success();
  op->walk([&](ts::KernelOp kernel) {
    auto schedules = chooseSchedules(kernel, *target);
    if (failed(schedules)) {
      result = failure();
      return;
    }
    for (auto [i, schedule] : llvm::enumerate(*schedules)) {
      std::string name =
          "kernel" + std::to_string(count) + "_" + std::to_string(i);
      if (failed(buildTileProgram(builder, kernel, schedule, *target, name,
                                  kernelSymbols(kernel))))
        result = failure();
    }
    ++count;
  });
  module->print(out);
  return result;
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
  TranslateToMLIRRegistration fromOnnx(
      "import-onnx", "an ONNX model to tensor IR",
      [](llvm::SourceMgr &sources, MLIRContext *context) {
        return importModel(sources, context);
      },
      registerAllKnapperDialects);
  TranslateRegistration inspect(
      "inspect-onnx", "what an ONNX model holds, as JSON",
      [](const std::shared_ptr<llvm::SourceMgr> &sources,
         llvm::raw_ostream &out,
         MLIRContext *) { return inspectModel(*sources, out); });
  TranslateFromMLIRRegistration toTile(
      "kernels-to-tile", "tile programs of the kernels of a module",
      kernelsToTile, registerAllKnapperDialects);
  TranslateFromMLIRRegistration toPtx(
      "tile-to-ptx", "tile functions to PTX of --isa (sm_90a)",
      [](Operation *op, llvm::raw_ostream &out) -> LogicalResult {
        auto target = cudaTarget(
            isaName.getNumOccurrences() ? std::string(isaName) : "sm_90a");
        if (!target)
          return emitError(op->getLoc(), target.error().message());
        auto ptx = emitPtx(cast<ModuleOp>(op), *target);
        if (!ptx)
          return emitError(op->getLoc(), ptx.error().message());
        out << ptx->text;
        return mlir::success();
      },
      registerAllKnapperDialects);
  return failed(mlirTranslateMain(argc, argv, "knapper-translate\n"));
}
