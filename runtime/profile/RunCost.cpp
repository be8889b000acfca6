#include "runtime/profile/RunCost.h"

#include <algorithm>
#include <optional>

namespace knapper {
namespace {

class CostOfRegions {
public:
  CostOfRegions(const Program &program, const Binding &binding)
      : program(program), binding(binding), costs(program.regions.size()) {}

  RunCost region(uint32_t index) {
    if (index >= costs.size())
      return {};
    if (costs[index])
      return *costs[index];
    costs[index] = RunCost(); // of a region that calls itself
    RunCost sum;
    for (const Program::Instruction &in : program.regions[index]) {
      RunCost cost = instruction(in);
      sum.flops += cost.flops;
      sum.bytes += cost.bytes;
    }
    return *(costs[index] = sum);
  }

private:
  double value(uint32_t index) const {
    return binding.known[index] ? std::max(0.0, double(binding.values[index]))
                                : 0;
  }

  RunCost instruction(const Program::Instruction &in) {
    switch (in.op) {
    case fb::Instruction::Launch: {
      const Program::Launch &launch = program.launches[in.index];
      return {value(launch.flops), value(launch.bytes)};
    }
    case fb::Instruction::Copy: // read and written
      return {0, 2 * value(in.bytes)};
    case fb::Instruction::If: {
      RunCost yes = region(in.index), no = region(in.other);
      bool first = std::pair(yes.flops, yes.bytes) >= //
                   std::pair(no.flops, no.bytes);
      return first ? yes : no;
    }
    case fb::Instruction::While: {
      RunCost condition = region(in.index), body = region(in.other);
      return {condition.flops + body.flops, condition.bytes + body.bytes};
    }
    case fb::Instruction::Repeat: {
      RunCost body = region(in.index);
      // With a condition the number of iterations is only a limit.
      bool isCounted = in.source.buffer == Program::kNone;
      double iterations =
          isCounted && binding.known[in.bytes] ? value(in.bytes) : 1;
      return {iterations * body.flops, iterations * body.bytes};
    }
    case fb::Instruction::Call:
      return region(in.index);
    default:
      return {};
    }
  }

  const Program &program;
  const Binding &binding;
  std::vector<std::optional<RunCost>> costs;
};

} // namespace

RunCost runCost(const Program &program, const Binding &binding) {
  return CostOfRegions(program, binding).region(0);
}

} // namespace knapper
