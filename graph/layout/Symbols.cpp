#include "graph/layout/Symbols.h"
#include "ir/tensor/Dialect.h"

using namespace mlir;

StringAttr knapper::newSymbol(ModuleOp module, StringRef stem) {
  SmallVector<Attribute> symbols;
  if (auto known = module->getAttrOfType<ArrayAttr>("ts.symbols"))
    llvm::append_range(symbols, known);
  auto isTaken = [&](StringRef name) {
    return llvm::any_of(symbols, [&](Attribute symbol) {
      return cast<ts::SymbolAttr>(symbol).getName() == name;
    });
  };
  std::string name = stem.str();
  for (int i = 0; isTaken(name); ++i)
    name = stem.str() + "_" + std::to_string(i);
  MLIRContext *context = module.getContext();
  auto symbol = StringAttr::get(context, name);
  symbols.push_back(ts::SymbolAttr::get(context, symbol, 0, -1, 1));
  module->setAttr("ts.symbols", ArrayAttr::get(context, symbols));
  return symbol;
}
