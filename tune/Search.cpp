#include "tune/Search.h"

#include <algorithm>

namespace knapper::tune {

Search::Search(std::vector<Knob> list) : knobs(std::move(list)) {
  seen.insert(Choice());
}

int64_t Search::valueOf(const Knob &knob) const {
  auto it = bestChoice.find(knob.name);
  return it == bestChoice.end() ? knob.model : it->second;
}

// The first choices of all knobs come before the second ones.
std::optional<Choice> Search::next() {
  if (pending || tried >= kMostMeasured)
    return pending;
  size_t most = 0;
  for (const Knob &knob : knobs)
    most = std::max(most, knob.others.size());
  for (size_t i = 0; i <= most; ++i)
    for (const Knob &knob : knobs) {
      // The model's value comes last: it matters once other knobs moved.
      if (i > knob.others.size())
        continue;
      int64_t value = i < knob.others.size() ? knob.others[i] : knob.model;
      if (value == valueOf(knob))
        continue;
      Choice choice = bestChoice;
      if (value == knob.model)
        choice.erase(knob.name);
      else
        choice[knob.name] = value;
      if (!seen.insert(choice).second)
        continue;
      pending = std::move(choice);
      return pending;
    }
  return std::nullopt;
}

void Search::measured(double gain) {
  if (!pending)
    return;
  ++tried;
  if (gain > bestGain * kLeastGain) {
    bestGain = gain;
    bestChoice = std::move(*pending);
  }
  pending.reset();
}

} // namespace knapper::tune
