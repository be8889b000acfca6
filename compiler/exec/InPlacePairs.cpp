#include "compiler/exec/InPlacePairs.h"

#include <algorithm>
#include <map>

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

namespace {
/// Inputs that an output is paired with at most where it is written over none.
/// Programs of thousands of equal inputs and outputs would have millions of
/// pairs.
constexpr size_t kMostFree = 64;

/// Inputs and outputs of one type and size, in order.
struct Alike {
  std::vector<uint32_t> inputs, outputs;
};
} // namespace

std::vector<fb::InPlace> MemoryUses::pairs(const fb::ProgramT &program) const {
  std::vector<uint32_t> inputs(program.inputs.size()),
      outputs(program.outputs.size());
  std::unordered_map<uint32_t, uint32_t> inputOf, outputOf; // by buffer
  // Sizes are one value of the program if they are one expression.
  std::map<std::pair<uint32_t, fb::DType>, Alike> classes;
  std::vector<bool> late = lateOutputs(program);
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const fb::BufferT &buffer = *program.buffers[i];
    if (buffer.kind == fb::BufferKind::input) {
      inputs[buffer.index] = i;
      inputOf[i] = buffer.index;
    } else if (buffer.kind == fb::BufferKind::output) {
      outputs[buffer.index] = i;
      outputOf[i] = buffer.index;
    }
  }
  for (uint32_t i = 0; i < inputs.size(); ++i)
    classes[{program.buffers[inputs[i]]->bytes, program.inputs[i]->dtype}]
        .inputs.push_back(i);
  for (uint32_t o = 0; o < outputs.size(); ++o)
    if (!late[o] && of(outputs[o]).firstWrite != kNever)
      classes[{program.buffers[outputs[o]]->bytes, program.outputs[o]->dtype}]
          .outputs.push_back(o);
  // Whether nothing reads the input when or after the output is written, but
  // for the instruction that may read it there.
  auto isRead = [&](uint32_t i, uint32_t o, bool over) {
    uint32_t last = of(inputs[i]).lastRead, first = of(outputs[o]).firstWrite;
    return last != kNever && last >= first && !(over && last == first);
  };

  std::vector<fb::InPlace> result;
  std::vector<bool> taken(inputs.size()), found(outputs.size());
  for (const Allowed &pair : allowed) {
    auto from = inputOf.find(pair.from), to = outputOf.find(pair.to);
    if (from == inputOf.end() || to == outputOf.end())
      continue;
    auto [i, o] = std::pair(from->second, to->second);
    if (program.buffers[pair.from]->bytes != program.buffers[pair.to]->bytes ||
        program.inputs[i]->dtype != program.outputs[o]->dtype || late[o] ||
        pair.instruction != of(pair.to).firstWrite || isRead(i, o, true))
      continue;
    result.push_back({o, i});
    taken[i] = found[o] = true;
  }
  for (const auto &[type, alike] : classes)
    for (size_t place = 0; place < alike.outputs.size(); ++place) {
      uint32_t o = alike.outputs[place];
      size_t count = alike.inputs.size();
      // From the input at the same place: steps of training give their
      // parameters back in order.
      for (size_t k = 0; !found[o] && k < std::min(count, kMostFree); ++k) {
        uint32_t i = alike.inputs[(place + k) % count];
        if (!taken[i] && !isRead(i, o, false))
          result.push_back({o, i});
      }
    }
  std::sort(result.begin(), result.end(), [](fb::InPlace a, fb::InPlace b) {
    return std::pair(a.output(), a.input()) < std::pair(b.output(), b.input());
  });
  return result;
}

} // namespace knapper
