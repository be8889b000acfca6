#include "compiler/exec/InPlacePairs.h"

#include <algorithm>

namespace knapper {

/// Of each output, whether a size of it is known only during the run: a caller
/// gives memory before.
static std::vector<bool> lateOutputs(const fb::ProgramT &program) {
  std::vector<bool> late(program.values.size());
  for (size_t i = 0; i < late.size(); ++i) {
    const fb::Scalar &value = program.values[i];
    if (value.op() == fb::ScalarOp::symbol)
      late[i] = program.symbols[value.imm()]->from_buffer;
    else if (value.op() != fb::ScalarOp::constant)
      late[i] = late[value.a()] || late[value.b()];
  }
  std::vector<bool> result;
  for (const auto &output : program.outputs)
    result.push_back(
        std::any_of(output->dims.begin(), output->dims.end(),
                    [&](uint32_t dim) { return bool(late[dim]); }));
  return result;
}

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
  std::vector<bool> taken(inputs.size()), late = lateOutputs(program);
  for (uint32_t o = 0; o < outputs.size(); ++o) {
    Uses to = of(outputs[o]);
    std::vector<fb::InPlace> mine;
    bool found = false;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      // Sizes are one value of the program if they are one expression.
      if (program.buffers[inputs[i]]->bytes !=
              program.buffers[outputs[o]]->bytes ||
          program.inputs[i]->dtype != program.outputs[o]->dtype || late[o] ||
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
