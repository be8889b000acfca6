#include "frontends/torch/AtenNode.h"
#include "frontends/torch/ImportTorch.h"
#include "llvm/ADT/StringMap.h"

namespace knapper {

static llvm::StringMap<const AtenRow *> makeTable() {
  llvm::StringMap<const AtenRow *> table;
  for (llvm::ArrayRef<AtenRow> rows :
       {atenUnaryRows(),         atenActivationRows(),   atenBinaryRows(),
        atenShapeRows(),         atenSliceRows(),        atenCreationRows(),
        atenReductionRows(),     atenMatMulRows(),       atenConvolutionRows(),
        atenNormalizationRows(), atenAttentionRows(),    atenIndexRows(),
        atenOrderRows(),         atenSpecialRows(),      atenBackwardRows(),
        atenBitsRows(),          atenFactorRows(),       atenSolveRows(),
        atenDistanceRows(),      atenAdaptivePoolRows(), atenEmbeddingRows(),
        atenSelectionRows(),     atenGroupedRows(),      atenControlRows(),
        atenFourierRows()})
    for (const AtenRow &row : rows)
      table[row.overload] = &row;
  return table;
}

const AtenRow *findAtenRow(llvm::StringRef overload) {
  static const llvm::StringMap<const AtenRow *> table = makeTable();
  return table.lookup(overload);
}

bool hasTorchRow(llvm::StringRef overload) { return findAtenRow(overload); }

std::string torchRows() {
  std::vector<std::string> names;
  for (const auto &entry : makeTable())
    names.push_back(entry.first().str());
  llvm::sort(names);
  std::string text;
  for (const std::string &name : names)
    text += name + "\n";
  return text;
}

} // namespace knapper
