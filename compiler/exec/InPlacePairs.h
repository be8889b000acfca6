//===- InPlacePairs.h - Outputs that may lie in an input's memory ---------===//
//
// What the instructions of a program do with the memory of its inputs and
// outputs, and which output may therefore be given exactly an input's memory:
//
//   - both have one element type and one size, known before the run,
//   - every read of the input comes before the first write of the output, or is
//     of that very instruction and allowed there: a copy of the whole, which is
//     then none, and a kernel that reads an element only where it writes it.
//
// Instructions of branches and loops count as the entry's instruction that they
// are part of: iterations come back to what was read.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/artefact/artefact_generated.h"
#include <set>
#include <unordered_map>
#include <vector>

namespace knapper {

class MemoryUses {
public:
  /// `instruction`: numbers of the entry's instructions, which do not fall.
  void read(uint32_t buffer, uint32_t instruction) {
    buffers[buffer].lastRead = instruction;
  }
  void write(uint32_t buffer, uint32_t instruction) {
    buffers[buffer].firstWrite =
        std::min(buffers[buffer].firstWrite, instruction);
  }
  /// The instruction reads `from` and writes `to` (both noted too), which may
  /// be the very same memory.
  void inPlace(uint32_t from, uint32_t to, uint32_t instruction) {
    allowed.insert({from, to, instruction});
  }

  /// The pairs of a finished program: of each output the inputs that it is
  /// written over directly; where there is none, those that are free by then
  /// and no other output's. Of very many of one size some are left out.
  std::vector<fb::InPlace> pairs(const fb::ProgramT &program) const;

private:
  static constexpr uint32_t kNever = ~uint32_t(0);
  struct Uses {
    uint32_t lastRead = kNever, firstWrite = kNever;
  };
  struct Allowed {
    uint32_t from, to, instruction;
    auto operator<=>(const Allowed &) const = default;
  };
  Uses of(uint32_t buffer) const {
    auto it = buffers.find(buffer);
    return it == buffers.end() ? Uses() : it->second;
  }

  std::unordered_map<uint32_t, Uses> buffers;
  std::set<Allowed> allowed;
};

} // namespace knapper
