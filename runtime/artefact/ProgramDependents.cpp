#include "runtime/artefact/ProgramChecks.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <iterator>

namespace knapper {

static void merge(Program::Dependents &to, const Program::Dependents &more) {
  auto unite = [](std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
    std::vector<uint32_t> both;
    std::set_union(a.begin(), a.end(), b.begin(), b.end(),
                   std::back_inserter(both));
    a = std::move(both);
  };
  unite(to.values, more.values);
  unite(to.checks, more.checks);
  unite(to.buffers, more.buffers);
  unite(to.outputs, more.outputs);
  unite(to.launches, more.launches);
}

Status findDependents(const Artefact &artefact, const fb::Program &from,
                      uint64_t budget, Program &program) {
  auto spend = [&](const Program::Dependents &list) -> Status {
    uint64_t size = list.values.size() + list.launches.size();
    if (size > budget)
      return damagedProgram(artefact, from, &from,
                            "symbols decide more than the file holds");
    budget -= size;
    return success();
  };
  size_t late = 0;
  for (const Program::Symbol &symbol : program.symbols)
    late += symbol.late;
  program.dependents.resize(program.symbols.size());
  // Programs are not made of thousands of late symbols: a bound on what a
  // damaged file can ask for.
  if (late > 4096)
    return damagedProgram(artefact, from, &from,
                          cat("instructions set ", late, " symbols"));
  for (uint32_t symbol = 0; symbol < program.symbols.size(); ++symbol) {
    if (!program.symbols[symbol].late)
      continue;
    Program::Dependents &list = program.dependents[symbol];
    std::vector<bool> hit(program.values.size());
    for (uint32_t i = 0; i < program.values.size(); ++i) {
      const Program::Value &v = program.values[i];
      hit[i] = v.op == fb::ScalarOp::symbol     ? v.imm == symbol
               : v.op == fb::ScalarOp::constant ? false
                                                : hit[v.a] || hit[v.b];
      if (hit[i])
        list.values.push_back(i);
    }
    for (uint32_t i = 0; i < program.checks.size(); ++i)
      if (hit[program.checks[i].value])
        list.checks.push_back(i);
    std::vector<bool> moved(program.buffers.size());
    for (uint32_t i = 0; i < program.outputs.size(); ++i)
      for (uint32_t d : program.outputs[i].dims)
        if (hit[d]) {
          list.outputs.push_back(i);
          moved[program.outputBuffer[i]] = true;
          break;
        }
    for (uint32_t i = 0; i < program.buffers.size(); ++i) {
      const Program::Buffer &b = program.buffers[i];
      if (b.kind == fb::BufferKind::temp && hit[b.bytes]) {
        list.buffers.push_back(i);
        moved[i] = true;
      }
    }
    for (uint32_t i = 0; i < program.launches.size(); ++i) {
      const Program::Launch &l = program.launches[i];
      bool changes = false;
      for (const Program::Ref &arg : l.args)
        changes |= hit[arg.offset] || moved[arg.buffer];
      for (const Program::Choice &c : l.choices) {
        changes |=
            hit[c.guard] || hit[c.grid] || hit[c.grain] || hit[c.scratch];
        for (uint32_t v : c.symbols)
          changes |= hit[v];
        if (c.matmul)
          c.matmul->forEachValue([&](uint32_t v) { changes |= hit[v]; });
      }
      if (changes)
        list.launches.push_back(i);
    }
    if (Status s = spend(list); !s)
      return s;
  }
  for (Program::External &external : program.externals) {
    for (uint32_t symbol : external.symbols)
      merge(external.dependents, program.dependents[symbol]);
    if (Status s = spend(external.dependents); !s)
      return s;
  }
  for (Program::Assignment &assignment : program.assignments) {
    for (auto [symbol, value] : assignment.symbols)
      merge(assignment.dependents, program.dependents[symbol]);
    if (Status s = spend(assignment.dependents); !s)
      return s;
  }
  return success();
}

} // namespace knapper
