#include "runtime/base/Text.h"
#include "runtime/artefact/ProgramChecks.h"

#include <algorithm>

namespace knapper {
namespace {

constexpr unsigned kMaxDepth = 64;
// Instructions a run executes with each loop body counted once: bounds what
// nested calls of calls can blow up to.
constexpr uint64_t kMaxExpanded = uint64_t(1) << 24;

class Structure {
public:
  Structure(const Artefact &artefact, const fb::Program &from, Program &program)
      : artefact(artefact), from(from), program(program),
        facts(program.regions.size()) {}

  Status run() { return enter(0, 0, 0); }

private:
  struct RegionFacts {
    enum State : uint8_t { fresh, open, done } state = fresh;
    uint64_t expanded = 0;         // instructions, calls expanded
    std::vector<uint32_t> touched; // temps, with those of nested regions
  };
  Error damaged(const void *at, std::string what) const {
    return damagedProgram(artefact, from, at, what);
  }

  Status alive(uint32_t buffer, uint32_t at) const {
    const Program::Buffer &b = program.buffers[buffer];
    if (b.kind == fb::BufferKind::temp && (at < b.first || at > b.last))
      return damaged(from.buffers()->Get(buffer),
                     cat("buffer ", buffer, " is used by instruction ", at,
                         " but alive from ", b.first, " to ", b.last));
    return success();
  }

  /// Numbers the region's instructions at its first mention; later mentions
  /// (calls) check that what it touches is alive at `at`.
  Status enter(uint32_t index, uint32_t at, unsigned depth) {
    RegionFacts &f = facts[index];
    const void *where = from.regions()->Get(index);
    if (f.state == RegionFacts::open || depth > kMaxDepth)
      return damaged(where, cat("region ", index,
                                " contains itself or nests "
                                "deeper than ",
                                kMaxDepth));
    if (f.state == RegionFacts::done) {
      for (uint32_t buffer : f.touched)
        if (Status s = alive(buffer, at); !s)
          return s;
      return success();
    }
    f.state = RegionFacts::open;
    std::vector<uint32_t> touched;
    uint64_t expanded = 0;
    for (const Program::Instruction &in : program.regions[index]) {
      uint32_t here = number++;
      ++expanded;
      auto touch = [&](uint32_t buffer) -> Status {
        if (program.buffers[buffer].kind == fb::BufferKind::temp)
          touched.push_back(buffer);
        program.buffers[buffer].optional &= depth > 0;
        return alive(buffer, here);
      };
      auto nested = [&](uint32_t region) -> Status {
        if (Status s = enter(region, here, depth + 1); !s)
          return s;
        expanded += facts[region].expanded;
        touched.insert(touched.end(), facts[region].touched.begin(),
                       facts[region].touched.end());
        if (expanded > kMaxExpanded)
          return damaged(where, "calls expand to too many instructions");
        return success();
      };
      Status s = success();
      switch (in.op) {
      case fb::Instruction::Launch:
        program.launches[in.index].optional &= depth > 0;
        for (const Program::Ref &arg : program.launches[in.index].args)
          if (s = touch(arg.buffer); !s)
            return s;
        break;
      case fb::Instruction::External:
        for (const auto *list : {&program.externals[in.index].inputs,
                                 &program.externals[in.index].outputs})
          for (const Program::ExternalTensor &tensor : *list)
            if (tensor.place.buffer != Program::kNone)
              if (s = touch(tensor.place.buffer); !s)
                return s;
        break;
      case fb::Instruction::Copy:
        if (s = touch(in.source.buffer); !s)
          return s;
        s = touch(in.target.buffer);
        break;
      case fb::Instruction::BindSymbol:
        s = touch(in.source.buffer);
        break;
      case fb::Instruction::If:
      case fb::Instruction::While:
        if (facts[in.index].state != RegionFacts::fresh ||
            facts[in.other].state != RegionFacts::fresh || in.index == in.other)
          return damaged(where, cat("region ", index,
                                    " shares a branch or a "
                                    "loop body with another; only calls may"));
        if (s = touch(in.source.buffer); !s)
          return s;
        if (s = nested(in.index); !s)
          return s;
        s = nested(in.other);
        break;
      case fb::Instruction::Repeat:
        if (facts[in.index].state != RegionFacts::fresh)
          return damaged(where, cat("region ", index,
                                    " shares a loop body with another; only "
                                    "calls may"));
        if (in.source.buffer != Program::kNone)
          if (s = touch(in.source.buffer); !s)
            return s;
        s = nested(in.index);
        break;
      case fb::Instruction::Call:
        s = nested(in.index);
        break;
      case fb::Instruction::SetSymbols:
      case fb::Instruction::Assert:
      case fb::Instruction::NONE:
        break;
      }
      if (!s)
        return s;
      if (touched.size() > 2 * program.buffers.size() + 64)
        deduplicate(touched);
    }
    deduplicate(touched);
    f.touched = std::move(touched);
    f.expanded = expanded;
    f.state = RegionFacts::done;
    return success();
  }
  static void deduplicate(std::vector<uint32_t> &list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }

  const Artefact &artefact;
  const fb::Program &from;
  Program &program;
  std::vector<RegionFacts> facts;
  uint32_t number = 0; // of the next instruction
};

} // namespace

Status checkStructure(const Artefact &artefact, const fb::Program &from,
                      Program &program) {
  return Structure(artefact, from, program).run();
}

} // namespace knapper
