#include "codegen/lower/math/testing/Jit.h"

#include "codegen/lower/math/Math.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/All.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;

namespace knapper::vecmath::testing {

bool hostRuns(llvm::StringRef cpu) {
  auto features = llvm::sys::getHostCPUFeatures();
  if (cpu == "x86-64-v3")
    return features["avx2"] && features["fma"];
  return features["avx512f"] && features["avx512dq"] && features["avx512bw"] &&
         features["avx512vl"] && features["avx512cd"];
}

static Type parseElement(MLIRContext &context, StringRef name) {
  Builder b(&context);
  if (name == "f32")
    return b.getF32Type();
  if (name == "f64")
    return b.getF64Type();
  if (name == "i32")
    return b.getI32Type();
  return b.getI64Type();
}

/// A function that applies `f` to arrays.
static void emit(ModuleOp module, const Function &f, Type element,
                 unsigned lanes) {
  MLIRContext *context = module.getContext();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = b.getUnknownLoc();
  Type pointer = LLVM::LLVMPointerType::get(context);
  auto type =
      b.getFunctionType({pointer, pointer, pointer, b.getI64Type()}, {});
  auto func = func::FuncOp::create(b, loc, f.name, type);
  Block *entry = func.addEntryBlock();
  b.setInsertionPointToStart(entry);
  Type tile = lanes ? Type(VectorType::get({lanes}, element)) : element;
  auto index = [&](int64_t v) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(v));
  };
  auto loop = scf::ForOp::create(b, loc, index(0), entry->getArgument(3),
                                 index(std::max(lanes, 1u)));
  b.setInsertionPointToStart(loop.getBody());
  Value at = loop.getInductionVar();
  auto address = [&](unsigned argument) {
    return LLVM::GEPOp::create(b, loc, pointer, element,
                               entry->getArgument(argument), ValueRange{at});
  };
  Value x = LLVM::LoadOp::create(b, loc, tile, address(0), 4);
  Value y;
  if (f.arity == 2)
    y = LLVM::LoadOp::create(b, loc, tile, address(1), 4);
  LLVM::StoreOp::create(b, loc, f.build(b, loc, x, y), address(2), 4);
  b.setInsertionPointToEnd(entry);
  func::ReturnOp::create(b, loc);
}

static std::unique_ptr<llvm::TargetMachine> machine(StringRef cpu,
                                                    std::string &error) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  auto *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, "", llvm::TargetOptions(), llvm::Reloc::PIC_));
}

std::string compile(ArrayRef<Function> functions, StringRef element,
                    unsigned lanes, StringRef cpu, std::string &error) {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                  vector::VectorDialect, func::FuncDialect, LLVM::LLVMDialect,
                  cf::ControlFlowDialect>();
  registerAllToLLVMIRTranslations(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (const Function &f : functions)
    emit(*module, f, parseElement(context, element), lanes);

  PassManager pm(&context);
  pm.addPass(createExpandMathPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  if (failed(pm.run(*module))) {
    error = "the MLIR pipeline failed";
    return {};
  }
  llvm::LLVMContext llvmContext;
  auto llvmModule = translateModuleToLLVMIR(*module, llvmContext);
  auto target = machine(cpu, error);
  if (!llvmModule || !target)
    return {};
  llvmModule->setTargetTriple(target->getTargetTriple());
  llvmModule->setDataLayout(target->createDataLayout());
  for (llvm::Function &f : *llvmModule)
    if (!f.isDeclaration()) {
      f.addFnAttr("prefer-vector-width", "512");
      f.addFnAttr("target-cpu", cpu);
    }

  llvm::PassBuilder builder(target.get());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functionAnalyses;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functionAnalyses);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functionAnalyses, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(*llvmModule, modules);

  llvm::SmallVector<char> buffer;
  llvm::raw_svector_ostream stream(buffer);
  llvm::legacy::PassManager codegen;
  if (target->addPassesToEmitFile(codegen, stream, nullptr,
                                  llvm::CodeGenFileType::ObjectFile)) {
    error = "the target emits no object files";
    return {};
  }
  codegen.run(*llvmModule);
  return std::string(buffer.begin(), buffer.end());
}

std::vector<std::string> undefinedSymbols(StringRef object) {
  std::vector<std::string> names;
  auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(
      llvm::MemoryBufferRef(object, "object")));
  for (const llvm::object::SymbolRef &symbol : file->symbols()) {
    uint32_t flags = llvm::cantFail(symbol.getFlags());
    if (flags & llvm::object::SymbolRef::SF_Undefined)
      if (auto name = symbol.getName(); name && !name->empty())
        names.push_back(name->str());
  }
  return names;
}

struct Loaded::State {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

Loaded::Loaded() : state(std::make_unique<State>()) {}
Loaded::~Loaded() = default;

std::unique_ptr<Loaded> Loaded::load(StringRef object, std::string &error) {
  std::unique_ptr<Loaded> loaded(new Loaded);
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit) {
    error = llvm::toString(jit.takeError());
    return nullptr;
  }
  loaded->state->jit = std::move(*jit);
  auto failure = loaded->state->jit->addObjectFile(
      llvm::MemoryBuffer::getMemBufferCopy(object, "kernels"));
  if (failure) {
    error = llvm::toString(std::move(failure));
    return nullptr;
  }
  return loaded;
}

Kernel Loaded::find(StringRef name, std::string &error) {
  auto address = state->jit->lookup(name);
  if (!address) {
    error = llvm::toString(address.takeError());
    return nullptr;
  }
  return address->toPtr<Kernel>();
}

} // namespace knapper::vecmath::testing
