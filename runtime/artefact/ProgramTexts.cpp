#include "runtime/base/Text.h"
#include "runtime/artefact/ProgramChecks.h"

namespace knapper {

/// A string is an address: bytes that a kernel made must never be taken for
/// one.
Status checkTexts(const Artefact &artefact, const fb::Program &from,
                  const Program &program) {
  std::vector<bool> isText(program.buffers.size());
  auto signature = [&](uint32_t buffer) -> const Program::Tensor * {
    const Program::Buffer &b = program.buffers[buffer];
    return b.kind == fb::BufferKind::input    ? &program.inputs[b.index]
           : b.kind == fb::BufferKind::output ? &program.outputs[b.index]
                                              : nullptr;
  };
  for (uint32_t b = 0; b < isText.size(); ++b)
    if (const Program::Tensor *tensor = signature(b))
      isText[b] = tensor->dtype == DType::text;
  auto forTensors = [&](auto visit) {
    for (const Program::External &external : program.externals)
      for (const auto *list : {&external.inputs, &external.outputs})
        for (const Program::ExternalTensor &tensor : *list)
          if (tensor.place.buffer != Program::kNone)
            visit(tensor.place.buffer, tensor.dtype == DType::text);
  };
  forTensors([&](uint32_t buffer, bool text) {
    isText[buffer] = isText[buffer] || text;
  });
  // Copies pass it on, both ways.
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto &region : program.regions)
      for (const Program::Instruction &in : region)
        if (in.op == fb::Instruction::Copy &&
            isText[in.source.buffer] != isText[in.target.buffer]) {
          isText[in.source.buffer] = isText[in.target.buffer] = true;
          changed = true;
        }
  }
  auto mixed = [&](uint32_t buffer) {
    return damagedProgram(
        artefact, from, from.buffers()->Get(buffer),
        cat("buffer ", buffer, " holds strings and something else"));
  };
  Status status = success();
  auto check = [&](uint32_t buffer, bool text) {
    if (isText[buffer] != text && status)
      status = mixed(buffer);
  };
  forTensors(check);
  for (uint32_t b = 0; b < isText.size(); ++b) {
    if (const Program::Tensor *tensor = signature(b))
      check(b, tensor->dtype == DType::text);
    if (program.buffers[b].kind == fb::BufferKind::constant)
      check(b, false);
  }
  for (const Program::Launch &launch : program.launches)
    for (const Program::Ref &arg : launch.args)
      check(arg.buffer, false);
  return status;
}

} // namespace knapper
