#include "codegen/schedule/core/Schedule.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/LaunchConfig.h"
#include "ir/tile/LaunchAttributes.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

/// Where a schedule is offered.
enum class Units { any, simd, simt };

struct ScheduleRow {
  StringRef kind;
  ChooseFn
      choose; ///< appends to the kernel's schedules; null: never on its own
  BuildFn build;
  Units units;
  unsigned codeLength;
  SmallVector<ts::Hero, 2> heroes;

  bool serves(ts::Hero hero, const TargetDesc &target) const {
    return llvm::is_contained(heroes, hero) &&
           (units == Units::any || (units == Units::simt) == target.simt);
  }
};

/// The table of schedules. A hero's rows are asked in order; each may append.
ArrayRef<ScheduleRow> table() {
  using ts::Hero;
  static const SmallVector<ScheduleRow> rows = {
#define SCHEDULE(KIND, NAME, UNITS, LENGTH, ...)                               \
  {KIND, choose##NAME, build##NAME, Units::UNITS, LENGTH, {__VA_ARGS__}},
#include "codegen/schedule/core/Schedules.def"
  };
  return rows;
}

const ScheduleRow *rowOf(StringRef kind) {
  const ScheduleRow *row = llvm::find_if(
      table(), [&](const ScheduleRow &row) { return row.kind == kind; });
  return row == table().end() ? nullptr : row;
}

StringRef predicateText(ts::ComparePredicate predicate) {
  constexpr StringRef texts[] = {"==", "!=", "<", "<=", ">", ">="};
  return texts[static_cast<uint32_t>(predicate)];
}

} // namespace

std::string Guard::str() const {
  std::string text;
  for (const Term &term : terms)
    text += (text.empty() ? "" : " and ") + term.lhs.str() + " " +
            predicateText(term.predicate).str() + " " + term.rhs.str();
  return text.empty() ? "always" : text;
}

std::string Schedule::label() const {
  std::string text = kind + "{";
  for (auto &[name, value] : parameters)
    text +=
        (text.back() == '{' ? "" : ",") + name + "=" + std::to_string(value);
  return text + "}";
}

unsigned codeLength(const Schedule &schedule) {
  const ScheduleRow *row = rowOf(schedule.kind);
  return row ? row->codeLength : 0;
}

int64_t representative(Dim dim) {
  return dim.evaluate([](StringRef) -> std::optional<int64_t> { return 128; })
      .value_or(128);
}

bool streamsOut(ts::KernelOp kernel, const TargetDesc &target) {
  int64_t bytes = 0;
  for (Value result : kernel.getResults())
    bytes += ts::byteCount(result.getType()).asConstant().value_or(0);
  return bytes > target.streamBytes;
}

FailureOr<SmallVector<Schedule>> chooseSchedules(ts::KernelOp kernel,
                                                 const TargetDesc &target) {
  Knobs knobs;
  return chooseSchedules(kernel, target, knobs);
}

FailureOr<SmallVector<Schedule>>
chooseSchedules(ts::KernelOp kernel, const TargetDesc &target, Knobs &knobs) {
  SmallVector<Schedule> schedules;
  for (const ScheduleRow &row : table())
    if (row.choose && row.serves(kernel.getHero(), target) &&
        (schedules.empty() || !schedules.back().guard.terms.empty()) &&
        failed(row.choose(kernel, target, knobs, schedules)))
      return failure();
  if (schedules.empty() || !schedules.back().guard.terms.empty())
    return kernel.emitOpError("no schedule serves every size of this kernel");
  int64_t state = 0;
  for (const Schedule &schedule : schedules)
    state = std::max(state, schedule.state);
  for (Schedule &schedule : schedules)
    schedule.state = state;
  return schedules;
}

SmallVector<std::string> kernelSymbols(ts::KernelOp kernel) {
  llvm::SetVector<StringAttr> symbols;
  auto addType = [&](Type type) {
    if (isa<RankedTensorType>(type))
      for (Dim dim : ts::dimsOf(type))
        dim.collectSymbols(symbols);
  };
  for (BlockArgument argument : kernel.getBody().getArguments())
    addType(argument.getType());
  kernel.getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      addType(type);
    for (NamedAttribute attribute : op->getAttrs())
      attribute.getValue().walk([&](ts::DimAttr dim) {
        Dim(dim).collectSymbols(symbols);
        return WalkResult::skip();
      });
  });
  return llvm::map_to_vector(symbols, [](StringAttr s) { return s.str(); });
}

FailureOr<tile::FuncOp>
buildTileProgram(OpBuilder &builder, ts::KernelOp kernel,
                 const Schedule &schedule, const TargetDesc &target,
                 StringRef name, ArrayRef<std::string> symbols) {
  const ScheduleRow *row = rowOf(schedule.kind);
  if (!row) {
    kernel.emitOpError("unknown schedule '") << schedule.kind << "'";
    return failure();
  }
  SmallVector<Type> elements;
  for (Value input : kernel.getInputs())
    elements.push_back(bufferType(ts::elementTypeOf(input)));
  for (Value result : kernel.getResults())
    elements.push_back(bufferType(ts::elementTypeOf(result)));
  if (schedule.state)
    elements.push_back(builder.getI64Type());
  auto function = tile::FuncOp::create(builder, kernel.getLoc(), name, elements,
                                       symbols.size());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&function.getBody().front());
  ElementEmitter emitter(builder, kernel.getLoc(), function, kernel, symbols,
                         target);
  builder.setInsertionPointToEnd(&function.getBody().front());
  auto launch = config::LaunchConfig::of(schedule.parameters);
  tile::LaunchAttributes attributes = {.threads = launch.threads,
                                       .access = launch.access,
                                       .clusterSize = launch.clusterSize,
                                       .ctasPerSm = launch.ctasPerSm};
  // What counts the grid is divided by each thread.
  if (launch.threads == 1)
    attributes.grid = schedule.grid.asConstant().value_or(0);
  attributes.set(function);
  BuildContext context{emitter, kernel, schedule, target};
  if (failed(row->build(context))) {
    function.erase();
    return failure();
  }
  tile::ReturnOp::create(builder, kernel.getLoc());
  return function;
}

} // namespace knapper
