// Regions and their instructions.
#include "runtime/artefact/ProgramDecoder.h"

#include "runtime/artefact/Limits.h"
#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <tuple>

namespace knapper {

Status ProgramDecoder::region(const void *at, uint32_t index) const {
  if (index >= count(from.regions()))
    return fail(at, cat("an instruction refers to region ", index, " of ",
                        count(from.regions())));
  return success();
}

Status ProgramDecoder::lateSymbol(const void *at, uint32_t index) const {
  if (index >= out.symbols.size() || !out.symbols[index].late)
    return fail(at, cat("an instruction sets symbol ", index,
                        ", which is not one that instructions set"));
  return success();
}

Status ProgramDecoder::readRef(const void *at, const fb::BufferRef *given,
                               const char *what, Program::Ref &to) {
  auto found = ref(at, given, what);
  if (!found)
    return found.takeError();
  to = *found;
  return success();
}

Status ProgramDecoder::read(const fb::Copy *c, Instruction &in) {
  TRY(readRef(c, c->source(), "a copy", in.source));
  TRY(readRef(c, c->target(), "a copy", in.target));
  TRY(writable(c, in.target, "a copy"));
  in.bytes = c->bytes();
  return value(c, c->bytes(), "a copy's size");
}

Status ProgramDecoder::read(const fb::BindSymbol *b, Instruction &in) {
  TRY(readRef(b, b->source(), "a bind", in.source));
  in.index = b->symbol();
  return lateSymbol(b, b->symbol());
}

Status ProgramDecoder::read(const fb::If *i, Instruction &in) {
  TRY(readRef(i, i->condition(), "a condition", in.source));
  in.index = i->then_region();
  in.other = i->else_region();
  TRY(region(i, in.index));
  return region(i, in.other);
}

Status ProgramDecoder::read(const fb::While *w, Instruction &in) {
  TRY(readRef(w, w->condition(), "a condition", in.source));
  in.index = w->condition_region();
  in.other = w->body_region();
  TRY(region(w, in.index));
  return region(w, in.other);
}

Status ProgramDecoder::read(const fb::SetSymbols *a, Instruction &in) {
  if (count(a->symbols()) != count(a->values()) || !spend(a->symbols()) ||
      !spend(a->values()))
    return fail(a, cat("an assignment has ", count(a->symbols()),
                       " symbols and ", count(a->values()), " values"));
  in.index = static_cast<uint32_t>(out.assignments.size());
  out.assignments.emplace_back();
  for (uint32_t i = 0; i < count(a->symbols()); ++i) {
    uint32_t to = a->symbols()->Get(i), from = a->values()->Get(i);
    TRY(lateSymbol(a, to));
    TRY(value(a, from, "an assignment"));
    out.assignments.back().symbols.push_back({to, from});
  }
  return success();
}

Status ProgramDecoder::readAssert(const fb::InstructionBox *box,
                                  Instruction &in) {
  const fb::Check *c = box->instruction_as_Assert()->check();
  if (!c)
    return fail(box, "an assertion has no check");
  TRY(value(c, c->value(), "an assertion"));
  in.index = static_cast<uint32_t>(out.assertions.size());
  out.assertions.push_back(
      {c->value(), text(c->message()), text(c->where()), text(c->hint())});
  return success();
}

Status ProgramDecoder::read(const fb::Repeat *r, Instruction &in) {
  TRY(lateSymbol(r, r->counter()));
  TRY(value(r, r->trips(), "a number of iterations"));
  TRY(region(r, r->body_region()));
  in.source.buffer = Program::kNone;
  if (r->condition())
    TRY(readRef(r, r->condition(), "a condition", in.source));
  in.index = r->body_region();
  in.other = r->counter();
  in.bytes = r->trips();
  return success();
}

Status ProgramDecoder::readKind(const fb::InstructionBox *box,
                                Instruction &in) {
  switch (in.op) {
  case fb::Instruction::Launch:
    in.index = static_cast<uint32_t>(out.launches.size());
    return launch(box->instruction_as_Launch());
  case fb::Instruction::Copy:
    return read(box->instruction_as_Copy(), in);
  case fb::Instruction::BindSymbol:
    return read(box->instruction_as_BindSymbol(), in);
  case fb::Instruction::If:
    return read(box->instruction_as_If(), in);
  case fb::Instruction::While:
    return read(box->instruction_as_While(), in);
  case fb::Instruction::Call:
    in.index = box->instruction_as_Call()->region();
    return region(box, in.index);
  case fb::Instruction::SetSymbols:
    return read(box->instruction_as_SetSymbols(), in);
  case fb::Instruction::Assert:
    return readAssert(box, in);
  case fb::Instruction::Repeat:
    return read(box->instruction_as_Repeat(), in);
  case fb::Instruction::External:
    in.index = static_cast<uint32_t>(out.externals.size());
    return external(box->instruction_as_External());
  default:
    return fail(box,
                cat("an instruction is of unknown kind ", unsigned(in.op)));
  }
}

Status ProgramDecoder::instruction(const fb::InstructionBox *box,
                                   std::vector<Instruction> &list) {
  Instruction in;
  in.op = box->instruction_type();
  if (!box->instruction())
    return fail(box, "an instruction is empty");
  TRY(readKind(box, in));
  list.push_back(in);
  return success();
}

Status ProgramDecoder::regions() {
  out.kernelUsed.assign(count(artefact.header().kernels()), false);
  if (count(from.regions()) == 0)
    return fail(&from, "there is no region to start in");
  for (uint32_t i = 0; i < count(from.regions()); ++i) {
    const auto *list = from.regions()->Get(i)->instructions();
    if (!spend(list))
      return fail(&from, "regions share more than the file holds");
    out.regions.emplace_back();
    for (uint32_t n = 0; n < count(list); ++n)
      if (Status s = instruction(list->Get(n), out.regions.back()); !s)
        return s;
  }
  return success();
}

} // namespace knapper
