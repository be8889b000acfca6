#include "runtime/artefact/Program.h"

#include "runtime/artefact/Format.h"
#include "runtime/artefact/Limits.h"
#include "runtime/artefact/ProgramChecks.h"
#include "runtime/artefact/ProgramDecoder.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace knapper {

Expected<Program> ProgramDecoder::run() {
  out.name = text(from.name());
  for (auto step : {&ProgramDecoder::symbols, &ProgramDecoder::values,
                    &ProgramDecoder::checks, &ProgramDecoder::signature,
                    &ProgramDecoder::inPlace, &ProgramDecoder::buffers,
                    &ProgramDecoder::regions, &ProgramDecoder::bound})
    if (Status s = (this->*step)(); !s)
      return s.takeError();
  if (Status s = checkStructure(artefact, from, out); !s)
    return s.takeError();
  if (Status s = checkTexts(artefact, from, out); !s)
    return s.takeError();
  if (Status s = findDependents(artefact, from, 4 * initialBudget, out); !s)
    return s.takeError();
  return std::move(out);
}

Status ProgramDecoder::symbols() {
  for (uint32_t i = 0; i < count(from.symbols()); ++i) {
    const fb::Symbol *s = from.symbols()->Get(i);
    if (s->divisor() < 1 || (s->max() != -1 && s->max() < s->min()))
      return fail(s, cat("symbol ", i, " has an empty range"));
    out.symbols.push_back(
        {text(s->name()), s->min(), s->max(), s->divisor(), s->from_buffer()});
    out.hasLate |= s->from_buffer();
  }
  return success();
}

Status ProgramDecoder::values() {
  for (uint32_t i = 0; i < count(from.values()); ++i) {
    const fb::Scalar *s = from.values()->Get(i);
    if (s->op() > fb::ScalarOp::MAX)
      return fail(
          s, cat("value ", i, " has unknown operation ", unsigned(s->op())));
    bool late = false;
    if (s->op() == fb::ScalarOp::symbol) {
      if (s->imm() < 0 || uint64_t(s->imm()) >= out.symbols.size())
        return fail(s, cat("value ", i, " refers to symbol ", s->imm(), " of ",
                           out.symbols.size()));
      late = out.symbols[s->imm()].late;
    } else if (s->op() != fb::ScalarOp::constant) {
      if (s->a() >= i || s->b() >= i)
        return fail(s, cat("value ", i, " refers to value ",
                           std::max(s->a(), s->b()),
                           ", which is not before "
                           "it"));
      late = out.values[s->a()].late || out.values[s->b()].late;
    }
    out.values.push_back({s->op(), s->a(), s->b(), s->imm(), late});
  }
  return success();
}

Status ProgramDecoder::checks() {
  for (uint32_t i = 0; i < count(from.checks()); ++i) {
    const fb::Check *c = from.checks()->Get(i);
    if (Status s = value(c, c->value(), "a check"); !s)
      return s;
    out.checks.push_back(
        {c->value(), text(c->message()), text(c->where()), text(c->hint())});
  }
  return success();
}

Status ProgramDecoder::tensor(const fb::TensorSignature *t, bool isInput,
                              std::vector<Program::Tensor> &list) {
  Program::Tensor tensor{
      text(t->name()), static_cast<DType>(t->dtype()), {}, {}, {}, false,
      t->index_limit()};
  if (t->dtype() > fb::DType::MAX)
    return fail(t, cat("tensor '", tensor.name, "' has unknown dtype ",
                       unsigned(t->dtype())));
  if (count(t->dims()) > uint32_t(kMaxRank) || !spend(t->dims()) ||
      count(t->dim_text()) != count(t->dims()))
    return fail(t, cat("tensor '", tensor.name, "' has ", count(t->dims()),
                       " dims and ", count(t->dim_text()), " names of dims"));
  for (uint32_t d = 0; d < count(t->dims()); ++d) {
    uint32_t index = t->dims()->Get(d);
    if (Status s = value(t, index, "a dim"); !s)
      return s;
    const Program::Value &v = out.values[index];
    if (v.late && isInput)
      return fail(t, cat("input '", tensor.name,
                         "' has a dim that is known only during the run"));
    tensor.late |= v.late;
    tensor.dims.push_back(index);
    tensor.dimText.push_back(text(t->dim_text()->Get(d)));
    tensor.staticDims.push_back(
        v.op == fb::ScalarOp::constant && v.imm >= 0 ? v.imm : -1);
  }
  out.hasText |= tensor.dtype == DType::text;
  list.push_back(std::move(tensor));
  return success();
}

Status ProgramDecoder::signature() {
  for (uint32_t i = 0; i < count(from.inputs()); ++i)
    if (Status s = tensor(from.inputs()->Get(i), true, out.inputs); !s)
      return s;
  for (uint32_t i = 0; i < count(from.outputs()); ++i)
    if (Status s = tensor(from.outputs()->Get(i), false, out.outputs); !s)
      return s;
  return success();
}

Status ProgramDecoder::inPlace() {
  out.inPlace.resize(out.outputs.size());
  const fb::InPlace *last = nullptr;
  for (uint32_t i = 0; i < count(from.in_place()); ++i) {
    const fb::InPlace *p = from.in_place()->Get(i);
    if (p->output() >= out.outputs.size() || p->input() >= out.inputs.size())
      return fail(p, cat("in-place pair ", i, " is of output ", p->output(),
                         " of ", out.outputs.size(), " and input ", p->input(),
                         " of ", out.inputs.size()));
    if (last && std::pair(p->output(), p->input()) <=
                    std::pair(last->output(), last->input()))
      return fail(p, cat("in-place pair ", i, " is out of order"));
    last = p;
    const Program::Tensor &output = out.outputs[p->output()];
    if (output.dtype != out.inputs[p->input()].dtype || output.late)
      return fail(p, cat("in-place pair ", i, " is of output '", output.name,
                         "' and input '", out.inputs[p->input()].name,
                         "', of other types or sizes"));
    out.inPlace[p->output()].push_back(p->input());
  }
  return success();
}

Status ProgramDecoder::buffers() {
  out.inputBuffer.assign(out.inputs.size(), Program::kNone);
  out.outputBuffer.assign(out.outputs.size(), Program::kNone);
  for (uint32_t i = 0; i < count(from.buffers()); ++i) {
    const fb::Buffer *b = from.buffers()->Get(i);
    Program::Buffer buffer{b->kind(),
                           b->index(),
                           b->bytes(),
                           b->first(),
                           b->last(),
                           false,
                           b->constant_offset(),
                           b->constant_bytes(),
                           b,
                           text(b->name()),
                           true};
    switch (b->kind()) {
    case fb::BufferKind::input:
    case fb::BufferKind::output: {
      auto &map = b->kind() == fb::BufferKind::input ? out.inputBuffer
                                                     : out.outputBuffer;
      if (b->index() >= map.size() || map[b->index()] != Program::kNone)
        return fail(b, cat("buffer ", i, " is a second or unknown ",
                           fb::EnumNameBufferKind(b->kind()), " ", b->index()));
      map[b->index()] = i;
      break;
    }
    case fb::BufferKind::temp:
      if (Status s = value(b, b->bytes(), "a buffer's size"); !s)
        return s;
      if (b->first() > b->last())
        return fail(b, cat("buffer ", i, " is alive from ", b->first(), " to ",
                           b->last()));
      buffer.late = out.values[b->bytes()].late;
      break;
    case fb::BufferKind::constant:
      if (b->constant_offset() % kConstantAlignment != 0 ||
          !inside(b->constant_offset(), b->constant_bytes(),
                  artefact.constants().size()))
        return fail(b, cat("constant ", i, " at ", b->constant_offset(), " of ",
                           b->constant_bytes(),
                           " bytes lies outside the constants section of ",
                           artefact.constants().size(),
                           " bytes or off a 64-byte boundary"));
      break;
    default:
      return fail(
          b, cat("buffer ", i, " is of unknown kind ", unsigned(b->kind())));
    }
    out.buffers.push_back(buffer);
  }
  for (uint32_t i = 0; i < out.outputs.size(); ++i)
    if (out.outputBuffer[i] == Program::kNone)
      return fail(&from, cat("output ", i, " has no buffer"));
  return success();
}

Expected<Program::Ref> ProgramDecoder::ref(const void *at,
                                           const fb::BufferRef *r,
                                           const char *what) const {
  if (!r)
    return fail(at, cat(what, " names no buffer"));
  if (r->buffer() >= out.buffers.size())
    return fail(r, cat(what, " refers to buffer ", r->buffer(), " of ",
                       out.buffers.size()));
  if (Status s = value(r, r->offset(), what); !s)
    return s.takeError();
  return Program::Ref{r->buffer(), r->offset()};
}

Status ProgramDecoder::writable(const void *at, Program::Ref r,
                                const char *what) const {
  fb::BufferKind kind = out.buffers[r.buffer].kind;
  if (kind == fb::BufferKind::input || kind == fb::BufferKind::constant)
    return fail(
        at, cat(what, " writes to an ",
                kind == fb::BufferKind::input ? "input" : "artefact constant"));
  return success();
}

Status ProgramDecoder::bound() {
  std::vector<bool> set(out.symbols.size());
  for (const Program::Tensor &t : out.inputs)
    for (uint32_t d : t.dims)
      if (out.values[d].op == fb::ScalarOp::symbol)
        set[out.values[d].imm] = true;
  for (const auto &region : out.regions)
    for (const Program::Instruction &in : region)
      if (in.op == fb::Instruction::BindSymbol)
        set[in.index] = true;
      else if (in.op == fb::Instruction::Repeat)
        set[in.other] = true;
      else if (in.op == fb::Instruction::External)
        for (uint32_t symbol : out.externals[in.index].symbols)
          set[symbol] = true;
      else if (in.op == fb::Instruction::SetSymbols)
        for (auto [symbol, from] : out.assignments[in.index].symbols)
          set[symbol] = true;
  for (uint32_t i = 0; i < set.size(); ++i)
    if (!set[i])
      return fail(&from, cat("symbol '", out.symbols[i].name,
                             "' is bound by no input and no instruction"));
  return success();
}

Error damagedProgram(const Artefact &artefact, const fb::Program &from,
                     const void *at, std::string_view what) {
  return artefact.damaged(at, cat("program '", text(from.name()), "', ", what));
}

bool Program::mayReplace(uint32_t output, uint32_t input) const {
  return std::binary_search(inPlace[output].begin(), inPlace[output].end(),
                            input);
}

Expected<Program> Program::decode(const Artefact &artefact, uint32_t index,
                                  uint32_t target) {
  const fb::Artefact &header = artefact.header();
  if (index >= count(header.programs()))
    return artefact.damaged(&header, cat("there is no program ", index));
  if (target >= count(header.targets()))
    return artefact.damaged(&header, cat("there is no target ", target));
  return ProgramDecoder(artefact, *header.programs()->Get(index), target).run();
}

} // namespace knapper
