#include "targets/cuda/Ptx.h"

#include "codegen/lower/common/Lower.h"
#include "ir/tile/GridOps.h"
#include "runtime/base/ForkMutex.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace mlir;

namespace knapper {

// The lowering goes operation by operation over a tile's parts, so that each
// holds a register for every element. Before their only user, values follow
// each other part by part; the driver's scheduler does not get there by itself.
static void sinkToUsers(llvm::BasicBlock &block) {
  for (llvm::Instruction &i :
       llvm::make_early_inc_range(llvm::reverse(block))) {
    if (i.mayReadOrWriteMemory() || i.mayHaveSideEffects() ||
        i.isTerminator() || llvm::isa<llvm::PHINode>(i) || !i.hasOneUse())
      continue;
    if (auto *call = llvm::dyn_cast<llvm::CallBase>(&i);
        call && call->isConvergent())
      continue;
    auto *user = llvm::cast<llvm::Instruction>(*i.user_begin());
    if (user->getParent() == &block && !llvm::isa<llvm::PHINode>(user))
      i.moveBefore(user->getIterator());
  }
}

static void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(
      llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  for (llvm::Function &fn : module)
    if (!fn.isDeclaration()) {
      passes.run(fn, functions);
      for (llvm::BasicBlock &block : fn)
        sinkToUsers(block);
    }
}

Expected<PtxModule> emitPtx(ModuleOp source, const TargetDesc &target) {
  forkOnce<PtxModule>([] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return userError("cannot emit PTX: " + error);
  // Sums of several neighbours in memory are newer than all else.
  bool newer = target.vectorAtomics &&
               source
                   .walk([](tile::AtomicOp op) {
                     return isa<VectorType>(op.getValue().getType())
                                ? WalkResult::interrupt()
                                : WalkResult::advance();
                   })
                   .wasInterrupted();
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.isa, newer ? "+ptx81" : "+ptx80", llvm::TargetOptions(),
      std::nullopt));

  llvm::LLVMContext context;
  llvm::Module module("kernels", context);
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
  PtxModule result;
  for (tile::FuncOp func : source.getOps<tile::FuncOp>()) {
    auto entry = lowerToGpu(func, target, module);
    if (failed(entry))
      return internalError("no lowering for GPUs",
                           "kernel '" + func.getName().str() + "'");
    result.kernels[func.getName().str()] = *entry;
  }
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream))
    return internalError("lowering made wrong LLVM IR: " + broken);
  optimise(module, *machine);

  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream out(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, out, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return internalError("LLVM cannot write PTX");
  passes.run(module);
  result.text.assign(text.data(), text.size());
  return result;
}

} // namespace knapper
