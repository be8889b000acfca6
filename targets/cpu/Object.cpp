#include "targets/cpu/Object.h"

#include "runtime/base/ForkMutex.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

namespace knapper {

static constexpr const char *kTriple = "x86_64-unknown-linux-gnu";
/// Of a kernel's frame, which lies on whatever thread runs it: programs give
/// theirs 128 KiB or more. Only kernels of very many wide values come near.
static constexpr unsigned kFrameLimit = 64 << 10;

/// What LLVM calls a target's processor, and what is not in that.
static llvm::StringRef processorOf(const TargetDesc &target) {
  return target.extends.empty() ? target.isa : target.extends;
}
static llvm::StringRef featuresOf(const TargetDesc &target) {
  if (target.tileMatmuls)
    return "-prefer-256-bit,+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16,"
           "+amx-int8";
  if (target.pairDots)
    return "-prefer-256-bit,+avx512vnni,+avx512bf16";
  if (target.byteDots)
    return "-prefer-256-bit,+avx512vnni";
  return target.vectorBytes == 64 ? "-prefer-256-bit" : "";
}

namespace {
/// Passes of the code generator, but for those that our kernels do not need.
/// They come with addresses that step by constants and with the strides of main
/// loops chosen; loop strength reduction costs as much as all other passes and
/// makes nothing faster.
class KernelPasses : public llvm::legacy::PassManagerBase {
public:
  void add(llvm::Pass *pass) override {
    static constexpr llvm::StringRef unneeded[] = {
        "Loop Strength Reduction", "Canonicalize Freeze Instructions in Loops"};
    if (llvm::is_contained(unneeded, pass->getPassName()))
      delete pass;
    else
      passes.add(pass);
  }
  void run(llvm::Module &module) { passes.run(module); }

private:
  llvm::legacy::PassManager passes;
};
} // namespace

struct ObjectEmitter::Impl {
  TargetDesc target;
  std::unique_ptr<llvm::TargetMachine> machine;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::FunctionPassManager passes;
  std::unique_ptr<llvm::PassBuilder> builder;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream{bytes};
  /// Of a module into `bytes`, for one module after another: its hundred passes
  /// take half a millisecond to make.
  std::unique_ptr<KernelPasses> emission;

  bool addEmission(KernelPasses &passes, llvm::raw_pwrite_stream &to,
                   llvm::CodeGenFileType kind);
};

/// Whether LLVM has such passes.
bool ObjectEmitter::Impl::addEmission(KernelPasses &passes,
                                      llvm::raw_pwrite_stream &to,
                                      llvm::CodeGenFileType kind) {
  llvm::TargetLibraryInfoImpl library(machine->getTargetTriple());
  library.disableAllFunctions();
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  return !machine->addPassesToEmitFile(passes, to, nullptr, kind);
}

ObjectEmitter::ObjectEmitter(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
ObjectEmitter::~ObjectEmitter() = default;

Expected<std::unique_ptr<ObjectEmitter>>
ObjectEmitter::create(const TargetDesc &target) {
  forkOnce<ObjectEmitter>([] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser(); // of instructions that LLVM has no name for
  });
  llvm::Triple triple(kTriple);
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return userError("cannot emit for x86-64: " + error);
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  impl->machine.reset(backend->createTargetMachine(
      triple, processorOf(target), featuresOf(target), llvm::TargetOptions(),
      llvm::Reloc::PIC_, llvm::CodeModel::Small,
      llvm::CodeGenOptLevel::Default));

  impl->builder = std::make_unique<llvm::PassBuilder>(impl->machine.get());
  // LLVM may make no call of anything.
  llvm::TargetLibraryInfoImpl library(triple);
  library.disableAllFunctions();
  impl->functions.registerPass(
      [library] { return llvm::TargetLibraryAnalysis(library); });
  impl->builder->registerModuleAnalyses(impl->modules);
  impl->builder->registerCGSCCAnalyses(impl->components);
  impl->builder->registerFunctionAnalyses(impl->functions);
  impl->builder->registerLoopAnalyses(impl->loops);
  impl->builder->crossRegisterProxies(impl->loops, impl->functions,
                                      impl->components, impl->modules);
  // Tile programs arrive in SSA form, loops rotated, vectors chosen: what is
  // left is to share address arithmetic and to move it out of loops.
  impl->passes.addPass(llvm::SimplifyCFGPass());
  impl->passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  impl->passes.addPass(llvm::InstCombinePass());
  impl->passes.addPass(llvm::createFunctionToLoopPassAdaptor(
      llvm::LICMPass(llvm::LICMOptions()), /*UseMemorySSA=*/true));
  return std::unique_ptr<ObjectEmitter>(new ObjectEmitter(std::move(impl)));
}

void ObjectEmitter::prepare(llvm::Module &module) const {
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(impl->machine->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
}

/// The only lane of a constant mask that is on.
static std::optional<unsigned> onlyLane(llvm::Value *mask) {
  auto *constant = dyn_cast<llvm::Constant>(mask);
  auto *type = dyn_cast<llvm::FixedVectorType>(mask->getType());
  std::optional<unsigned> only;
  for (unsigned i = 0; constant && type && i < type->getNumElements(); ++i) {
    llvm::Constant *lane = constant->getAggregateElement(i);
    if (!lane || lane->isNullValue())
      continue;
    if (only)
      return {};
    only = i;
  }
  return only;
}

/// Masked stores of one lane become plain stores of it. LLVM's x86 back end (up
/// to 22 at least) does the same but forgets that the store may be narrowing:
/// of a truncated vector it writes whole lanes, over what follows in memory.
static void storeSingleLanes(llvm::Function &fn) {
  for (llvm::Instruction &i : llvm::make_early_inc_range(instructions(fn))) {
    auto *store = dyn_cast<llvm::IntrinsicInst>(&i);
    if (!store || store->getIntrinsicID() != llvm::Intrinsic::masked_store)
      continue;
    llvm::Value *mask = store->getArgOperand(store->arg_size() - 1);
    std::optional<unsigned> lane = onlyLane(mask);
    if (!lane)
      continue;
    llvm::IRBuilder<> b(store);
    llvm::Value *vector = store->getArgOperand(0);
    llvm::Type *element =
        cast<llvm::VectorType>(vector->getType())->getElementType();
    llvm::Value *place =
        b.CreateConstGEP1_64(element, store->getArgOperand(1), *lane);
    llvm::Align align =
        std::min(store->getParamAlign(1).valueOrOne(),
                 llvm::Align(element->getScalarSizeInBits() / 8));
    b.CreateAlignedStore(b.CreateExtractElement(vector, *lane), place, align)
        ->copyMetadata(*store);
    store->eraseFromParent();
  }
}

void ObjectEmitter::optimise(llvm::Module &module) {
  for (llvm::Function &fn : module) {
    if (fn.isDeclaration())
      continue;
    fn.addFnAttr(llvm::Attribute::NoUnwind);
    fn.addFnAttr("no-builtins");
    fn.addFnAttr("target-cpu", processorOf(impl->target));
    if (impl->target.vectorBytes == 64) {
      fn.addFnAttr("target-features", featuresOf(impl->target));
      fn.addFnAttr("prefer-vector-width", "512");
      fn.addFnAttr("min-legal-vector-width", "512");
    }
    fn.addFnAttr("warn-stack-size", std::to_string(kFrameLimit));
    impl->passes.run(fn, impl->functions);
    storeSingleLanes(fn);
  }
  impl->functions.clear();
  impl->loops.clear();
}

namespace {
/// Collects what the back end reports; its default would end the process.
struct Collector : llvm::DiagnosticHandler {
  std::string *text;
  explicit Collector(std::string *text) : text(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error &&
        info.getKind() != llvm::DK_StackSize)
      return true;
    llvm::raw_string_ostream stream(*text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    if (!text->empty())
      stream << "; ";
    info.print(printer);
    return true;
  }
};
} // namespace

Expected<std::string> ObjectEmitter::emit(llvm::Module &module, bool assembly) {
  std::string problems;
  llvm::LLVMContext &context = module.getContext();
  context.setDiagnosticHandler(std::make_unique<Collector>(&problems));
  auto restore = llvm::make_scope_exit([&] {
    context.setDiagnosticHandler(std::make_unique<llvm::DiagnosticHandler>());
  });
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  std::unique_ptr<KernelPasses> passes;
  if (!assembly)
    passes = std::move(impl->emission); // back where it is once it has worked
  if (!passes) {
    passes = std::make_unique<KernelPasses>();
    if (!impl->addEmission(*passes, assembly ? stream : impl->stream,
                           assembly ? llvm::CodeGenFileType::AssemblyFile
                                    : llvm::CodeGenFileType::ObjectFile))
      return internalError("LLVM cannot write objects for x86-64");
  }
  impl->bytes.clear();
  passes->run(module);
  // Failed passes are dropped: what they hold of the module is not known.
  if (!problems.empty())
    return internalError("code generation failed: " + problems,
                         module.getName().str());
  llvm::ArrayRef<char> written = assembly ? text : impl->bytes;
  std::string result(written.begin(), written.end());
  if (!assembly)
    impl->emission = std::move(passes);
  return result;
}

} // namespace knapper
