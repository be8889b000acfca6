#include "compiler/exec/Origin.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace knapper {

std::string originText(Location location) {
  return llvm::TypeSwitch<LocationAttr, std::string>(location)
      .Case<NameLoc>([](NameLoc name) { return name.getName().str(); })
      .Case<FileLineColLoc>([](FileLineColLoc file) {
        return (file.getFilename().getValue() + ":" + Twine(file.getLine()))
            .str();
      })
      .Case<FusedLoc>([](FusedLoc fused) {
        for (Location part : fused.getLocations())
          if (std::string text = originText(part); !text.empty())
            return text;
        return std::string();
      })
      .Case<CallSiteLoc>(
          [](CallSiteLoc call) { return originText(call.getCaller()); })
      .Default([](LocationAttr) { return std::string(); });
}

std::string kernelOrigin(ts::KernelOp kernel) {
  constexpr size_t longest = 400;
  llvm::SetVector<StringRef> seen;
  llvm::SmallVector<std::string> names;
  kernel.getBody().walk([&](Operation *op) {
    if (!isa<ts::YieldOp, ts::ConstantOp>(op))
      names.push_back(originText(op->getLoc()));
  });
  std::string text;
  for (const std::string &name : names) {
    if (name.empty() || !seen.insert(name))
      continue;
    if (text.size() + name.size() > longest)
      return text + ", ...";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

} // namespace knapper
