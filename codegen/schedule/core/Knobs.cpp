#include "codegen/schedule/core/Knobs.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace knapper {

int64_t Knobs::pick(StringRef name, int64_t best, ArrayRef<int64_t> others) {
  tune::Knob knob{name.str(), best, {}, best};
  for (int64_t other : others)
    if (other != best && !is_contained(knob.others, other))
      knob.others.push_back(other);
  if (auto it = recorded.find(knob.name);
      it != recorded.end() && is_contained(knob.others, it->second))
    knob.value = it->second;
  int64_t value = knob.value;
  if (none_of(knobs,
              [&](const tune::Knob &known) { return known.name == name; }))
    knobs.push_back(std::move(knob));
  return value;
}

bool Knobs::offerAlone(StringRef name) {
  bool taken = pick(name, 0, {1}) == 1;
  for (tune::Knob &knob : knobs)
    if (knob.name == name)
      knob.isAlone = true;
  return taken;
}

bool Knobs::fits() const {
  return all_of(recorded, [&](const auto &entry) {
    return any_of(knobs, [&](const tune::Knob &knob) {
      return knob.name == entry.first && knob.value == entry.second;
    });
  });
}

} // namespace knapper
