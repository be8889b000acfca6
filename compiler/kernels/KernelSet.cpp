#include "compiler/kernels/KernelSet.h"
#include "graph/fusion/Signature.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

KernelUse KernelSet::add(ts::KernelOp kernel, ArrayRef<bool> constants) {
  fusion::CanonicalKernel canonical = fusion::canonicalKernel(kernel);
  KernelUse use;
  use.bindings = canonical.symbols;
  std::string key = canonical.signature;
  for (bool constant : constants)
    key += constant ? 'c' : 'v';
  auto [it, isNew] = bySignature.try_emplace(key, kernels.size());
  use.kernel = it->second;
  if (!isNew)
    return use;
  UniqueKernel unique;
  unique.text = std::move(canonical.text);
  unique.signature = std::move(canonical.signature);
  unique.constants.assign(constants.begin(), constants.end());
  for (size_t i = 0; i < use.bindings.size(); ++i)
    unique.symbols.push_back("k" + std::to_string(i));
  unique.module =
      fusion::parseCanonicalKernel(unique.text, kernel.getContext());
  unique.kernel = findKernel(*unique.module, constants);
  // The real location of the first use, for diagnostics and reports.
  unique.kernel->setLoc(kernel.getLoc());
  kernels.push_back(std::move(unique));
  return use;
}

ts::KernelOp findKernel(Operation *module, ArrayRef<bool> constants) {
  ts::KernelOp found;
  module->walk([&](ts::KernelOp kernel) { found = kernel; });
  if (found)
    found->setAttr("ts.constants",
                   DenseBoolArrayAttr::get(module->getContext(), constants));
  return found;
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
