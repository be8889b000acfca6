#include "frontends/stablehlo/HloBodies.h"
#include "frontends/stablehlo/HloElastic.h"

using namespace mlir;

namespace knapper {

LogicalResult giveHloResults(HloNode &n, ArrayRef<Value> values) {
  if (values.size() != n.results.size())
    return n.damaged("gives " + Twine(values.size()) + " values for " +
                     Twine(n.results.size()) + " results");
  if (llvm::is_contained(values, Value()))
    return failure();
  for (auto [i, value] : llvm::enumerate(values))
    if (mlir::failed(n.out(value, i)))
      return failure();
  return mlir::success();
}

Block *beginHloBody(HloNode &n, unsigned index, StringRef name,
                    ArrayRef<Type> types, HloBody &region) {
  Block *block = hloBlock(n.op, index, types.size());
  if (!block) {
    (void)n.damaged("region " + Twine(index) + " has not " +
                    Twine(types.size()) + " arguments and one block");
    return nullptr;
  }
  n.importer.beginBody(region.body, name, n.loc, n.frame.body, types);
  region.frame.parent = &n.frame;
  region.frame.body = &region.body;
  region.frame.depth = n.frame.depth + 1;
  for (auto [i, argument] : llvm::enumerate(block->getArguments())) {
    std::string problem;
    if (!hloFits(hloType(argument.getType(), problem), types[i]))
      (void)n.damaged("a region's argument is of another type");
    region.frame.values[argument] = region.body.function.getArgument(i);
  }
  return block;
}

std::optional<SmallVector<Value>> importHloBlock(HloNode &n, Block &block,
                                                 HloFrame &frame) {
  Expected<SmallVector<Value>> values = n.importer.importBlock(block, frame);
  if (!values) {
    n.error = values.takeError();
    return std::nullopt;
  }
  if (llvm::is_contained(*values, Value()))
    return std::nullopt;
  return *values;
}

} // namespace knapper
