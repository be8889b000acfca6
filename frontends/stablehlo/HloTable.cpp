#include "frontends/stablehlo/HloComplexMath.h"
#include "frontends/stablehlo/HloElastic.h"
#include "frontends/stablehlo/HloQuantised.h"
#include "frontends/stablehlo/HloSpecial.h"
#include "frontends/stablehlo/ImportStableHlo.h"
#include "llvm/ADT/StringMap.h"

namespace knapper {

static llvm::StringMap<const HloRow *> makeTable() {
  llvm::StringMap<const HloRow *> table;
  for (llvm::ArrayRef<HloRow> rows :
       {hloUnaryRows(),     hloBinaryRows(),  hloConstantRows(),
        hloShapeRows(),     hloDynamicRows(), hloMatmulRows(),
        hloReductionRows(), hloWindowRows(),  hloGatherRows(),
        hloScatterRows(),   hloSortRows(),    hloSpecialRows(),
        hloControlRows(),   hloLoopRows(),    hloMatrixRows(),
        hloNormRows(),      hloOlderRows(),   hloQuantisedRows(),
        hloRandomRows(),    hloElasticRows(), hloCollectiveRows()})
    for (const HloRow &row : rows)
      table[row.name] = &row;
  return table;
}

const HloRow *findHloRow(llvm::StringRef name) {
  static const llvm::StringMap<const HloRow *> table = makeTable();
  return table.lookup(name);
}

bool hasHloRow(llvm::StringRef name) {
  // What HloPartition.h puts in place has none.
  return findHloRow(name) || name == "manual_computation" ||
         llvm::any_of(hloComplexRows(),
                      [&](const HloRow &row) { return name == row.name; });
}

std::string stableHloRows() {
  std::vector<std::string> names;
  for (const HloRow &row : hloComplexRows())
    if (!findHloRow(row.name))
      names.push_back(row.name);
  for (const auto &entry : makeTable())
    names.push_back(entry.first().str());
  llvm::sort(names);
  std::string text;
  for (const std::string &name : names)
    text += name + "\n";
  return text;
}

} // namespace knapper
