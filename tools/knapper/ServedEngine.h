// The engine behind `knapper serve` and `knapper chat`.
#pragma once

#include "serving/engine/Engine.h"
#include "tools/knapper/Session.h"

#include <CLI/CLI.hpp>

namespace knapper::cli {

/// The flags that say how a model runs, and the engine that they ask for.
class ServedEngine {
public:
  void addTo(CLI::App &app);
  /// Blocks until the model takes requests. `vocabulary`: the tokenizer's size.
  Expected<std::unique_ptr<serving::Engine>> open(const std::string &folder,
                                                  int32_t vocabulary) const;

private:
  int threads = 0, maxContext = 0, maxSequences = 64, maxBatchedTokens = 512,
      queueLimit = 1024;
  std::string dtype = "f32", target = "cpu";
  double kvMemory = 0; ///< GiB
  bool noPrefixCache = false, isNull = false;
  int64_t nullStep = 0; ///< microseconds
  int nullFailing = -1;
};

} // namespace knapper::cli
