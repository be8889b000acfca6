// The table of operators: all families, searched by name.
#include "frontends/onnx/Strings.h"

namespace knapper {

static llvm::StringMap<llvm::SmallVector<const OpRow *, 1>> buildTable() {
  llvm::StringMap<llvm::SmallVector<const OpRow *, 1>> table;
  for (llvm::ArrayRef<OpRow> rows : {elementwiseRows(),
                                     activationRows(),
                                     matMulRows(),
                                     convRows(),
                                     poolRows(),
                                     normalizationRows(),
                                     softmaxRows(),
                                     reductionRows(),
                                     shapeRows(),
                                     sliceRows(),
                                     gatherRows(),
                                     constantRows(),
                                     attentionRows(),
                                     lossRows(),
                                     quantizeRows(),
                                     resizeRows(),
                                     controlRows(),
                                     recurrentRows(),
                                     sequenceRows(),
                                     flexAttentionRows(),
                                     linearAttentionRows(),
                                     classicalRows(),
                                     treeRows(),
                                     textRows(),
                                     stringRows(),
                                     oldOpsetRows(),
                                     randomRows(),
                                     samplingRows(),
                                     selectionRows(),
                                     suppressionRows(),
                                     spectralRows(),
                                     trainingRows(),
                                     contribLayerRows(),
                                     contribMatmulRows(),
                                     contribAttentionRows(),
                                     contribQuantizedRows(),
                                     contribOtherRows()})
    for (const OpRow &row : rows)
      table[(llvm::Twine(row.domain) + ":" + row.name).str()].push_back(&row);
  return table;
}

const OpRow *findRow(llvm::StringRef domain, llvm::StringRef name,
                     int64_t opset, bool *known) {
  static const auto table = buildTable();
  auto it = table.find((domain + ":" + name).str());
  if (known)
    *known = it != table.end();
  if (it == table.end())
    return nullptr;
  for (const OpRow *row : it->second)
    if (opset >= row->since && opset <= row->until)
      return row;
  return nullptr;
}

} // namespace knapper
