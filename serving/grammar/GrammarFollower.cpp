#include "serving/grammar/GrammarFollower.h"

#include "serving/grammar/MaskWords.h"

#include <bit>

namespace knapper::serving {

GrammarFollower::GrammarFollower(std::unique_ptr<GrammarCursor> cursor,
                                 MaskWorkers &workers, Settings settings)
    : workers(workers), state(std::make_shared<State>()) {
  state->cursor = std::move(cursor);
  state->settings = settings;
  begin();
}

void GrammarFollower::begin() {
  complete = state->cursor->canEnd();
  job = std::make_shared<MaskWorkers::Job>([state = state] {
    try {
      state->outcome = look(*state->cursor, state->settings);
    } catch (const std::bad_alloc &) { // only this sequence fails
      state->outcome = deviceError("out of memory", "grammar");
    }
  });
  workers.add(job);
}

/// The only token of a mask; -1: there are others, or none.
static int32_t onlyToken(std::span<const uint32_t> allowed) {
  size_t at = nextWord(allowed, 0);
  if (at == allowed.size() || !std::has_single_bit(allowed[at]) ||
      nextWord(allowed, at + 1) != allowed.size())
    return -1;
  return static_cast<int32_t>(at) * 32 + std::countr_zero(allowed[at]);
}

Expected<GrammarFollower::Outcome>
GrammarFollower::look(GrammarCursor &cursor, const Settings &settings) {
  Outcome outcome;
  while (true) {
    ASSIGN_OR_RETURN(outcome.next, cursor.next(settings.ends));
    // Where the text may end it is the model that decides.
    int32_t token =
        static_cast<int32_t>(outcome.forced.size()) < settings.jump &&
                outcome.next.canGoOn && !outcome.next.canEnd
            ? onlyToken(outcome.next.allowed)
            : -1;
    if (token < 0)
      return outcome;
    TRY(cursor.accept(token));
    outcome.forced.push_back(token);
  }
}

Expected<const GrammarFollower::Outcome *> GrammarFollower::outcome() {
  workers.finish(*job);
  if (!state->outcome)
    return state->outcome.error();
  return &*state->outcome;
}

Status GrammarFollower::accept(int32_t token) {
  workers.finish(*job);
  TRY(state->cursor->accept(token));
  begin();
  return success();
}

} // namespace knapper::serving
