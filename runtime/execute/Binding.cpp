#include "runtime/execute/Binding.h"

#include "runtime/base/Checked.h"
#include "runtime/base/Text.h"
#include "runtime/memory/Planner.h"

#include <algorithm>

namespace knapper {
namespace {

constexpr int64_t kMaxScratch = int64_t(1) << 32;
constexpr size_t kMaxExpression = 160;

const char *operatorText(fb::ScalarOp op) {
  switch (op) {
  case fb::ScalarOp::add:
    return "+";
  case fb::ScalarOp::sub:
    return "-";
  case fb::ScalarOp::mul:
    return "*";
  case fb::ScalarOp::floordiv:
    return " floordiv ";
  case fb::ScalarOp::ceildiv:
    return " ceildiv ";
  case fb::ScalarOp::mod:
    return " mod ";
  case fb::ScalarOp::min:
    return " min ";
  case fb::ScalarOp::max:
    return " max ";
  case fb::ScalarOp::eq:
    return " == ";
  case fb::ScalarOp::ne:
    return " != ";
  case fb::ScalarOp::lt:
    return " < ";
  case fb::ScalarOp::le:
    return " <= ";
  case fb::ScalarOp::logical_and:
    return " and ";
  case fb::ScalarOp::logical_or:
    return " or ";
  case fb::ScalarOp::constant:
  case fb::ScalarOp::symbol:
    break;
  }
  return "?";
}

void appendExpression(const Program &program, uint32_t index, bool nested,
                      unsigned depth, std::string &out) {
  const Program::Value &v = program.values[index];
  if (v.op == fb::ScalarOp::constant) {
    out += std::to_string(v.imm);
  } else if (v.op == fb::ScalarOp::symbol) {
    out += program.symbols[v.imm].name;
  } else if (depth > 32 || out.size() > kMaxExpression) {
    out += "...";
  } else {
    if (nested)
      out += '(';
    bool product = v.op == fb::ScalarOp::mul;
    auto operand = [&](uint32_t i) {
      bool sameProduct = product && program.values[i].op == fb::ScalarOp::mul;
      appendExpression(program, i, !sameProduct, depth + 1, out);
    };
    operand(v.a);
    out += operatorText(v.op);
    operand(v.b);
    if (nested)
      out += ')';
  }
}

} // namespace

std::string expressionText(const Program &program, uint32_t value) {
  std::string text;
  appendExpression(program, value, false, 0, text);
  return text;
}

std::optional<int64_t> evaluate(const Program::Value &value,
                                std::span<const int64_t> symbols,
                                std::span<const int64_t> values) {
  if (value.op == fb::ScalarOp::constant)
    return value.imm;
  if (value.op == fb::ScalarOp::symbol)
    return symbols[value.imm];
  int64_t a = values[value.a], b = values[value.b];
  switch (value.op) {
  case fb::ScalarOp::add:
    return checkedAdd(a, b);
  case fb::ScalarOp::sub:
    return checkedSub(a, b);
  case fb::ScalarOp::mul:
    return checkedMul(a, b);
  case fb::ScalarOp::floordiv:
    return checkedFloorDiv(a, b);
  case fb::ScalarOp::ceildiv:
    return checkedCeilDiv(a, b);
  case fb::ScalarOp::mod:
    return checkedMod(a, b);
  case fb::ScalarOp::min:
    return std::min(a, b);
  case fb::ScalarOp::max:
    return std::max(a, b);
  case fb::ScalarOp::eq:
    return a == b;
  case fb::ScalarOp::ne:
    return a != b;
  case fb::ScalarOp::lt:
    return a < b;
  case fb::ScalarOp::le:
    return a <= b;
  case fb::ScalarOp::logical_and:
    return a != 0 && b != 0;
  case fb::ScalarOp::logical_or:
    return a != 0 || b != 0;
  case fb::ScalarOp::constant:
  case fb::ScalarOp::symbol:
    break;
  }
  return std::nullopt;
}

Status checkSymbol(const Program::Symbol &symbol, int64_t value) {
  if (value < symbol.min)
    return userError(cat("size '", symbol.name, "' is ", value,
                         ", it must be at least ", symbol.min),
                     "", "give a larger input");
  if (symbol.max != -1 && value > symbol.max)
    return userError(cat("size '", symbol.name, "' is ", value,
                         ", it may be at most ", symbol.max),
                     "",
                     "give a smaller input, or compile with a larger bound");
  if (value % symbol.divisor != 0)
    return userError(cat("size '", symbol.name, "' is ", value,
                         ", it must be a multiple of ", symbol.divisor),
                     "", "pad the input");
  return success();
}

Error valueError(const Program &program, uint32_t value) {
  return userError(cat("a size overflows 64 bits or divides by zero: ",
                       expressionText(program, value)),
                   "", "give smaller inputs");
}

Expected<uint32_t> choose(const Program &program, const Program::Launch &launch,
                          std::span<const int64_t> values,
                          std::span<const uint8_t> known, uint32_t first) {
  for (uint32_t i = first; i < launch.choices.size(); ++i) {
    const Program::Choice &c = launch.choices[i];
    if (!known[c.guard])
      return valueError(program, c.guard);
    if (values[c.guard] == 0)
      continue;
    for (uint32_t v : {c.grid, c.grain, c.scratch})
      if (!known[v])
        return valueError(program, v);
    for (uint32_t v : c.symbols)
      if (!known[v])
        return valueError(program, v);
    for (const Program::Ref &arg : launch.args)
      if (!known[arg.offset])
        return valueError(program, arg.offset);
    if (values[c.grid] < 0 || values[c.scratch] < 0 ||
        values[c.scratch] > kMaxScratch)
      return userError(cat("a launch of ", c.label, " has grid ",
                           values[c.grid], " and scratch ", values[c.scratch]),
                       launch.origin,
                       "give smaller inputs, mend the kernel of --kernels if "
                       "it is one, or compile the model again");
    return i;
  }
  return internalError("no choice of a launch was taken", launch.origin);
}

Expected<Binding> bindProgram(const Program &program,
                              std::span<const int64_t> symbols) {
  Binding b;
  b.symbols.assign(symbols.begin(), symbols.end());
  for (size_t i = 0; i < program.symbols.size(); ++i)
    if (program.symbols[i].late)
      b.symbols[i] = 0;
  b.values.resize(program.values.size());
  b.known.resize(program.values.size());
  // A value is only an error where it is used: branches that are not taken have
  // sizes too.
  for (size_t i = 0; i < program.values.size(); ++i) {
    const Program::Value &v = program.values[i];
    bool leaf = v.op == fb::ScalarOp::constant || v.op == fb::ScalarOp::symbol;
    if (v.late || (!leaf && !(b.known[v.a] && b.known[v.b])))
      continue;
    std::optional<int64_t> value = evaluate(v, b.symbols, b.values);
    b.known[i] = value.has_value();
    b.values[i] = value.value_or(0);
  }
  for (const Program::Check &c : program.checks) {
    if (program.values[c.value].late)
      continue;
    if (!b.known[c.value])
      return valueError(program, c.value);
    if (b.values[c.value] == 0)
      return userError(c.message, c.where, c.hint);
  }

  std::vector<PlanRequest> requests;
  std::vector<uint32_t> planned;
  b.offsets.assign(program.buffers.size(), 0);
  int64_t total = 0;
  for (uint32_t i = 0; i < program.buffers.size(); ++i) {
    const Program::Buffer &buffer = program.buffers[i];
    if (buffer.kind != fb::BufferKind::temp || buffer.late)
      continue;
    int64_t bytes = b.values[buffer.bytes];
    if (buffer.optional)
      bytes = std::max<int64_t>(bytes, 0);
    else if (!b.known[buffer.bytes])
      return valueError(program, buffer.bytes);
    std::optional<int64_t> sum =
        bytes < 0 ? std::nullopt : checkedAdd(total, bytes);
    if (sum)
      sum = checkedAdd(*sum, 64);
    if (!sum)
      return userError(
          cat("a temporary has ", bytes, " bytes: the sizes are too large"),
          buffer.name, "give smaller inputs");
    total = *sum;
    planned.push_back(i);
    requests.push_back(
        {static_cast<uint64_t>(bytes), buffer.first, buffer.last});
  }
  MemoryPlan plan = planMemory(requests);
  for (size_t i = 0; i < planned.size(); ++i)
    b.offsets[planned[i]] = plan.offsets[i];
  b.arenaBytes = plan.bytes;
  b.liveBytes = plan.liveBytes;

  b.choice.assign(program.launches.size(), Program::kNone);
  for (uint32_t i = 0; i < program.launches.size(); ++i) {
    const Program::Launch &launch = program.launches[i];
    if (launch.late)
      continue;
    Expected<uint32_t> choice = choose(program, launch, b.values, b.known);
    if (!choice && launch.optional)
      continue;
    if (!choice)
      return choice.takeError();
    b.choice[i] = *choice;
    b.scratch = std::max<uint64_t>(b.scratch,
                                   b.values[launch.choices[*choice].scratch]);
  }
  return b;
}

} // namespace knapper
