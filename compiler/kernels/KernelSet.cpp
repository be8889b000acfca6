#include "compiler/kernels/KernelSet.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

/// A copy of the kernel in a module of its own, in canonical symbols.
static UniqueKernel canonicalise(ts::KernelOp kernel,
                                 ArrayRef<std::string> symbols) {
  MLIRContext *context = kernel.getContext();
  Location unknown = UnknownLoc::get(context);
  UniqueKernel unique;
  unique.module = ModuleOp::create(unknown);
  llvm::StringMap<Dim> renamed;
  for (auto [i, name] : llvm::enumerate(symbols)) {
    unique.symbols.push_back("k" + std::to_string(i));
    renamed[name] = Dim::symbol(context, unique.symbols.back());
  }

  OpBuilder builder(context);
  builder.setInsertionPointToEnd(unique.module->getBody());
  auto function = func::FuncOp::create(
      builder, unknown, "kernel",
      builder.getFunctionType(kernel.getOperandTypes(),
                              kernel.getResultTypes()));
  Block *body = function.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  IRMapping mapping;
  mapping.map(kernel.getInputs(), body->getArguments());
  auto copy = cast<ts::KernelOp>(builder.clone(*kernel, mapping));
  func::ReturnOp::create(builder, unknown, copy.getResults());

  AttrTypeReplacer replacer;
  replacer.addReplacement([&](ts::DimAttr dim) -> std::pair<Attribute, WalkResult> {
    Dim result = Dim(dim).substitute(
        [&](StringRef name) { return renamed.lookup(name); });
    return {result.attr(), WalkResult::skip()};
  });
  replacer.recursivelyReplaceElementsIn(*unique.module, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  unique.module->walk([&](Operation *op) {
    op->setLoc(unknown);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setLoc(unknown);
  });
  unique.kernel = *function.getBody().getOps<ts::KernelOp>().begin();
  return unique;
}

KernelUse KernelSet::add(ts::KernelOp kernel) {
  MLIRContext *context = kernel.getContext();
  SmallVector<std::string> symbols = kernelSymbols(kernel);
  KernelUse use;
  for (const std::string &name : symbols)
    use.bindings.push_back(Dim::symbol(context, name));
  UniqueKernel unique = canonicalise(kernel, symbols);

  std::string text;
  llvm::raw_string_ostream stream(text);
  unique.module->print(stream, OpPrintingFlags().printGenericOpForm());
  unique.signature = llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true,
                                     /*Width=*/16);
  auto [it, isNew] =
      bySignature.try_emplace(unique.signature, kernels.size());
  use.kernel = it->second;
  if (isNew) {
    // The real location of the first use, for diagnostics and reports.
    unique.kernel->setLoc(kernel.getLoc());
    llvm::raw_string_ostream bytes(unique.bytecode);
    (void)writeBytecodeToFile(*unique.module, bytes);
    kernels.push_back(std::move(unique));
  }
  return use;
}

Dim bind(Dim dim, const UniqueKernel &kernel, const KernelUse &use) {
  return dim.substitute([&](StringRef name) -> Dim {
    for (auto [symbol, value] : llvm::zip(kernel.symbols, use.bindings))
      if (symbol == name)
        return value;
    return {};
  });
}

} // namespace knapper
