// A sequence in its grammar: what may follow is found beside the device.
#pragma once

#include "serving/grammar/MaskWorkers.h"
#include "serving/grammar/TokenGrammar.h"

#include <vector>

namespace knapper::serving {

/// Of one thread. The workers must live longer.
class GrammarFollower {
public:
  struct Settings {
    bool ends = true; ///< as GrammarCursor::next has it
    /// Tokens in a row that the grammar alone decides are found at once, up to
    /// so many.
    int32_t jump = 0;
  };
  struct Outcome {
    /// Tokens that must follow now, in order. The cursor is behind them.
    std::vector<int32_t> forced;
    GrammarCursor::Next next; ///< behind those
  };

  /// Begins to find what may come first.
  GrammarFollower(std::unique_ptr<GrammarCursor> cursor, MaskWorkers &workers,
                  Settings settings);

  /// What may follow; waits for it. It is this object's, until `accept`.
  Expected<const Outcome *> outcome();
  /// Takes a token that `outcome` allows behind those that are forced, and
  /// begins to find what follows.
  Status accept(int32_t token);
  /// The text is complete behind the last token that was accepted. Only valid
  /// before the next `outcome`: what is forced may end it too.
  bool canEnd() const { return complete; }

private:
  struct State {
    std::unique_ptr<GrammarCursor> cursor;
    Settings settings;
    Expected<Outcome> outcome = Outcome();
  };
  static Expected<Outcome> look(GrammarCursor &cursor,
                                const Settings &settings);
  void begin();

  MaskWorkers &workers;
  const std::shared_ptr<State> state; ///< the job's while it runs
  std::shared_ptr<MaskWorkers::Job> job;
  bool complete = false;
};

} // namespace knapper::serving
