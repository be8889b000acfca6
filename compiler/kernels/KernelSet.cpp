#include "compiler/kernels/KernelSet.h"
#include "compiler/kernels/ScheduleAttr.h"
#include "graph/fusion/Signature.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

KernelUse KernelSet::add(ts::KernelOp kernel, ArrayRef<bool> constants) {
  fusion::CanonicalKernel canonical = fusion::canonicalKernel(kernel);
  KernelUse use;
  use.bindings = canonical.symbols;
  if (llvm::is_contained(constants, true)) {
    std::string text = canonical.signature;
    for (bool constant : constants)
      text += constant ? 'c' : 'v';
    canonical.signature =
        llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true, 16);
  }
  auto [it, isNew] =
      bySignature.try_emplace(canonical.signature, kernels.size());
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

void UniqueKernel::setSchedules(SmallVector<Schedule> chosen) {
  schedules = std::move(chosen);
  scheduleTexts.clear();
  for (const Schedule &schedule : schedules)
    llvm::raw_string_ostream(scheduleTexts.emplace_back())
        << scheduleAttr(schedule, kernel.getContext());
}

std::string UniqueKernel::functionName(size_t index) const {
  return schedules[index].kind + "_" + signature +
         (schedules.size() > 1 ? "_" + std::to_string(index) : "");
}

std::string UniqueKernel::vendorName() const {
  return std::string(name(vendor->library)) + "_" + signature;
}

std::string UniqueKernel::label(size_t index) const {
  return userKernel.empty() ? schedules[index].label()
                            : "user{" + userKernel + "}";
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
