// The engine behind `knapper serve` and `knapper chat`.
#pragma once

#include "serving/chat/ModelTexts.h"
#include "serving/engine/Engine.h"
#include "tools/knapper/Session.h"

#include <CLI/CLI.hpp>

namespace knapper::cli {

/// The flags that say how a model runs, and the engine that they ask for.
class ServedEngine {
public:
  void addTo(CLI::App &app);
  /// Blocks until the model of the folder, of which these are the texts, takes
  /// requests.
  Expected<std::unique_ptr<serving::Engine>>
  open(const std::string &folder, const serving::ModelTexts &texts) const;

private:
  /// The model in an engine, once.
  Expected<std::unique_ptr<serving::Engine>>
  load(const std::string &folder, const serving::ModelTexts &texts) const;

  int threads = 0, maxContext = 0, maxSequences = 64, maxBatchedTokens = 512,
      queueLimit = 1024;
  int speculateTokens = 8;
  std::string dtype = "f32", target = "cpu", speculate = "off", draftModel,
              record;
  double kvMemory = 0; ///< GiB
  bool noPrefixCache = false, batchInvariant = false, isNull = false,
       verifyFiles = false;
  int64_t nullStep = 0; ///< microseconds
  int nullFailing = -1, nullLosing = -1, nullHanging = -1;
  double hungAfter = -1; ///< seconds; negative: by the target
};

} // namespace knapper::cli
