#include "graph/fusion/Signature.h"

#include "graph/fusion/FusionPasses.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace knapper;
using namespace knapper::fusion;
using namespace knapper::ts;

namespace knapper::fusion {
#define GEN_PASS_DEF_KERNELSIGNATURES
#include "graph/fusion/FusionPasses.h.inc"
} // namespace knapper::fusion

namespace {

using SymbolNames = llvm::DenseMap<StringAttr, Dim>;

void renameSymbols(Operation *root, const SymbolNames &names) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](DimAttr dim) {
    Dim renamed = Dim(dim).substitute([&](StringRef name) {
      return names.lookup(StringAttr::get(root->getContext(), name));
    });
    return std::make_pair(Attribute(renamed.attr()), WalkResult::skip());
  });
  replacer.recursivelyReplaceElementsIn(root, /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
}

} // namespace

CanonicalKernel fusion::canonicalKernel(KernelOp kernel) {
  MLIRContext *context = kernel.getContext();
  CanonicalKernel canonical;

  // Symbols in order of appearance. Sizes print sorted by name, so renaming
  // may reorder a sum; the names are settled before anything is printed.
  llvm::SetVector<StringAttr> symbols;
  auto collect = [&](Attribute attribute) {
    attribute.walk([&](DimAttr dim) {
      Dim(dim).collectSymbols(symbols);
      // What lies inside (atoms) has been collected with it.
      return WalkResult::skip();
    });
  };
  auto collectType = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      if (Attribute encoding = tensor.getEncoding())
        collect(encoding);
  };
  llvm::for_each(kernel->getOperandTypes(), collectType);
  kernel.getBody().walk([&](Operation *op) {
    for (NamedAttribute attribute : op->getAttrs())
      collect(attribute.getValue());
    llvm::for_each(op->getResultTypes(), collectType);
  });
  SymbolNames renamed;
  for (auto [i, symbol] : llvm::enumerate(symbols)) {
    renamed[symbol] = Dim::symbol(context, "k" + std::to_string(i));
    canonical.symbols.push_back(Dim::symbol(context, symbol.getValue()));
  }

  OpBuilder builder(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToStart(module->getBody());
  auto function =
      func::FuncOp::create(builder, builder.getUnknownLoc(), "kernel",
                           builder.getFunctionType(kernel->getOperandTypes(),
                                                   kernel->getResultTypes()));
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  IRMapping mapping;
  mapping.map(kernel.getInputs(), entry->getArguments());
  auto copy = cast<KernelOp>(builder.clone(*kernel, mapping));
  copy.removeSignatureAttr();
  copy.removeSchedulesAttr();
  // What was decided of this kernel says nothing about what it computes.
  copy->setDiscardableAttrs(DictionaryAttr::get(context));
  func::ReturnOp::create(builder, builder.getUnknownLoc(), copy.getResults());

  // Sizes that are numbers have no names.
  if (!symbols.empty())
    renameSymbols(module.get(), renamed);
  llvm::raw_string_ostream stream(canonical.text);
  module->print(stream, OpPrintingFlags().useLocalScope().assumeVerified());
  canonical.signature =
      llvm::formatv("{0:x-16}", llvm::xxh3_64bits(canonical.text)).str();
  return canonical;
}

OwningOpRef<Operation *> fusion::parseCanonicalKernel(StringRef text,
                                                      MLIRContext *context) {
  // The kernel was verified where it was formed.
  ParserConfig config(context, /*verifyAfterParse=*/false);
  return OwningOpRef<Operation *>(
      parseSourceString<ModuleOp>(text, config).release());
}

namespace {
class KernelSignaturesPass
    : public fusion::impl::KernelSignaturesBase<KernelSignaturesPass> {
  void runOnOperation() override {
    getOperation().walk([](KernelOp kernel) {
      kernel.setSignature(canonicalKernel(kernel).signature);
    });
  }
};
} // namespace
