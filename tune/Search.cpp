#include "tune/Search.h"

#include <algorithm>

namespace knapper::tune {

Search::Search(std::vector<Knob> list) : knobs(std::move(list)) {
  seen.insert(Choice());
}

int64_t Search::valueOf(const Knob &knob) const {
  auto it = together.find(knob.name);
  return it == together.end() ? knob.model : it->second;
}

std::optional<Choice> Search::propose() {
  for (const Knob &knob : knobs)
    for (int64_t value : knob.others)
      if (Choice alone{{knob.name, value}};
          knob.isAlone && seen.insert(alone).second)
        return alone;
  size_t most = 0;
  for (const Knob &knob : knobs)
    most = std::max(most, knob.others.size());
  // The first choices of all knobs come before the second ones.
  for (size_t i = 0; i <= most; ++i)
    for (const Knob &knob : knobs) {
      // The model's value comes last: it matters once other knobs moved.
      if (knob.isAlone || i > knob.others.size())
        continue;
      int64_t value = i < knob.others.size() ? knob.others[i] : knob.model;
      if (value == valueOf(knob))
        continue;
      Choice choice = together;
      if (value == knob.model)
        choice.erase(knob.name);
      else
        choice[knob.name] = value;
      if (seen.insert(choice).second)
        return choice;
    }
  return std::nullopt;
}

std::optional<Choice> Search::next() {
  if (!pending && tried < kMostMeasured)
    pending = propose();
  return pending;
}

void Search::measured(double gain) {
  if (!pending)
    return;
  ++tried;
  bool alone = std::any_of(knobs.begin(), knobs.end(), [&](const Knob &knob) {
    return knob.isAlone && pending->contains(knob.name);
  });
  if (!alone && gain > togetherGain * kLeastGain) {
    togetherGain = gain;
    together = *pending;
  }
  if (gain > bestGain * kLeastGain) {
    bestGain = gain;
    bestChoice = std::move(*pending);
  }
  pending.reset();
}

} // namespace knapper::tune
