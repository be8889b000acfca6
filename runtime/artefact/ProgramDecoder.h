//===- ProgramDecoder.h - A program of an artefact, checked and copied ----===//
//
// Program::decode's parts, a file for each kind of thing: Program.cpp (symbols,
// values, signature, buffers), ProgramLaunches.cpp, ProgramExternals.cpp and
// ProgramInstructions.cpp. Nothing of the file is trusted: an index, a count or
// an enum that does not fit is a UserError that names the place.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/artefact/Format.h"
#include "runtime/artefact/Program.h"
#include "runtime/artefact/ProgramChecks.h"
#include "runtime/base/Text.h"

#include <cstring>

namespace knapper {

/// Checks one fb::Program while copying it. Each method stops at the first
/// damage.
class ProgramDecoder {
public:
  ProgramDecoder(const Artefact &artefact, const fb::Program &from,
                 uint32_t target)
      : artefact(artefact), from(from), target(target) {
    // Vectors and strings may be shared inside a FlatBuffer; what they expand
    // to is bounded by a multiple of what was stored.
    Prelude prelude;
    memcpy(&prelude, artefact.bytes().data(), sizeof prelude);
    budget = (1 << 20) + 16 * prelude.headerBytes;
    initialBudget = budget;
  }

  Expected<Program> run();

private:
  Error fail(const void *at, std::string what) const {
    return damagedProgram(artefact, from, at, what);
  }
  template <typename T> bool spend(const T *vectorOrString) {
    uint64_t size = 16 + count(vectorOrString);
    if (size > budget)
      return false;
    budget -= size;
    return true;
  }

  Status symbols();
  Status values();
  Status value(const void *at, uint32_t index, const char *what) const {
    if (index >= out.values.size())
      return fail(
          at, cat(what, " refers to value ", index, " of ", out.values.size()));
    return success();
  }

  Status checks();
  Status tensor(const fb::TensorSignature *t, bool isInput,
                std::vector<Program::Tensor> &list);
  Status signature();
  Status inPlace();
  Status buffers();
  Expected<Program::Ref> ref(const void *at, const fb::BufferRef *r,
                             const char *what) const;
  /// A buffer that the program may write.
  Status writable(const void *at, Program::Ref r, const char *what) const;
  Expected<Program::Map> tmaDescriptor(const fb::TmaDescriptor *from,
                                       uint32_t args, bool &late) const;
  Status matrix(const fb::VendorMatrix *from, const fb::Launch *launch,
                size_t batch, const char *what, Program::Matrix &into,
                bool &late);
  Status values(const void *at, const flatbuffers::Vector<uint32_t> *list,
                std::vector<uint32_t> &into) const;
  Status allKnown(const void *at, const std::vector<uint32_t> &used,
                  bool &late) const;

  /// What a choice gives a library to compute.
  Status matmul(const fb::Choice *c, const fb::Launch *l,
                fb::VendorLibrary library, Program::Choice &choice, bool &late);
  Status launch(const fb::Launch *l);
  Status externalTensor(const fb::ExternalTensor *t, bool isOutput,
                        std::vector<Program::ExternalTensor> &list);
  Expected<OperatorAttribute> attribute(const fb::Attribute *a);
  Status external(const fb::External *e);
  Status region(const void *at, uint32_t index) const;
  Status lateSymbol(const void *at, uint32_t index) const;

  using Instruction = Program::Instruction;

  /// Sets `to` to the place in a buffer that is `given`.
  Status readRef(const void *at, const fb::BufferRef *given, const char *what,
                 Program::Ref &to);
  Status read(const fb::Copy *c, Instruction &in);
  Status read(const fb::BindSymbol *b, Instruction &in);
  Status read(const fb::If *i, Instruction &in);
  Status read(const fb::While *w, Instruction &in);
  Status read(const fb::SetSymbols *a, Instruction &in);
  Status readAssert(const fb::InstructionBox *box, Instruction &in);
  Status read(const fb::Repeat *r, Instruction &in);
  Status readKind(const fb::InstructionBox *box, Instruction &in);
  Status instruction(const fb::InstructionBox *box,
                     std::vector<Instruction> &list);
  Status regions();

  /// Every symbol is set by an input's dim or by an instruction.
  Status bound();

  const Artefact &artefact;
  const fb::Program &from;
  uint32_t target;
  uint64_t budget, initialBudget;
  Program out;
};

} // namespace knapper
