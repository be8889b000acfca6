#include "compiler/exec/InPlacePairs.h"

#include <algorithm>

namespace knapper {

std::vector<fb::InPlace> MemoryUses::pairs(const fb::ProgramT &program) const {
  std::vector<uint32_t> inputs(program.inputs.size()),
      outputs(program.outputs.size());
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const fb::BufferT &buffer = *program.buffers[i];
    if (buffer.kind == fb::BufferKind::input)
      inputs[buffer.index] = i;
    else if (buffer.kind == fb::BufferKind::output)
      outputs[buffer.index] = i;
  }
  std::vector<fb::InPlace> direct, free;
  std::vector<bool> taken(inputs.size());
  for (uint32_t o = 0; o < outputs.size(); ++o) {
    Uses to = of(outputs[o]);
    std::vector<fb::InPlace> mine;
    bool found = false;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      // Sizes are one value of the program if they are one expression.
      if (program.buffers[inputs[i]]->bytes !=
              program.buffers[outputs[o]]->bytes ||
          program.inputs[i]->dtype != program.outputs[o]->dtype ||
          to.firstWrite == kNever)
        continue;
      uint32_t last = of(inputs[i]).lastRead;
      bool over = allowed.contains({inputs[i], outputs[o], to.firstWrite});
      if (last != kNever && last >= to.firstWrite &&
          !(over && last == to.firstWrite))
        continue;
      if (over) {
        direct.push_back({o, i});
        taken[i] = found = true;
      } else {
        mine.push_back({o, i});
      }
    }
    if (!found)
      free.insert(free.end(), mine.begin(), mine.end());
  }
  std::erase_if(free, [&](fb::InPlace pair) { return taken[pair.input()]; });
  free.insert(free.end(), direct.begin(), direct.end());
  std::sort(free.begin(), free.end(), [](fb::InPlace a, fb::InPlace b) {
    return std::pair(a.output(), a.input()) < std::pair(b.output(), b.input());
  });
  return free;
}

} // namespace knapper
