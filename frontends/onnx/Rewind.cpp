// Attempts at importing subgraphs that are taken back.
#include "frontends/onnx/Importer.h"

using namespace mlir;

namespace knapper {

Importer::Mark Importer::mark() {
  return {symbols, problems.size(), &module.getBody()->back(),
          b.saveInsertionPoint()};
}

void Importer::rewind(const Mark &mark) {
  symbols = mark.symbols;
  problems.resize(mark.problems);
  Block *top = module.getBody();
  while (&top->back() != mark.lastFunction) {
    top->back().walk([&](Operation *op) {
      for (Value result : op->getResults())
        valueCache.erase(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          for (Value argument : block.getArguments())
            valueCache.erase(argument);
    });
    top->back().erase();
  }
  b.restoreInsertionPoint(mark.at);
}

bool Importer::guess() {
  if (guessed == guesses.size())
    guesses.push_back(true);
  return guesses[guessed++];
}

} // namespace knapper
