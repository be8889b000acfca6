// Matmuls with packed integers (ts.packed_dot) on GPUs: one
// `tile.packed_matmul` a kernel, its region what the kernel computes of the
// matmul's elements. The integers are read once for all rows of a CTA and
// become floats in registers.
//
//   few rows     the warps of a CTA share out the depth of 16 columns: what
//                counts is that enough of the integers is on its way
//   many rows    they have columns side by side and share rows of A through the
//                first-level cache; where the op has floats made of its
//                integers, gpu_matmul reads those instead
//
// Parameters: those of PackedMatmulGpuConfig
// (ir/config/PackedMatmulGpuConfig.h).
#include "codegen/schedule/matmul/GpuPackedMatmul.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/ElementEmitter.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/FirstOp.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/PackedMatmulGpuConfig.h"
#include "ir/tile/PackedOps.h"

using namespace mlir;

namespace knapper {

using config::PackedMatmulGpuConfig;
using ts::Dim;

/// The sizes that the op has, and the widest accesses that reach all of it;
/// nothing if none does.
static std::optional<PackedMatmulGpuConfig> configFor(ts::PackedDotOp op) {
  std::optional<int64_t> depth = ts::dimsOf(op.getInput()).back().asConstant();
  if (!depth || *depth < 1)
    return std::nullopt;
  PackedMatmulGpuConfig config;
  config.bits = static_cast<int64_t>(op.getBits());
  config.group = static_cast<int64_t>(op.getGroup());
  config.depth = *depth;
  config.tileM = 8;
  config.warpsN = config.warpsK = config.stages = 1;
  for (int64_t bytes : {16, 8, 4}) {
    config.access = bytes;
    if (config.problem().empty())
      return config;
  }
  return std::nullopt;
}

bool takesPackedDot(ts::PackedDotOp op) { return configFor(op).has_value(); }

LogicalResult chooseGpuPackedMatmul(ts::KernelOp kernel, const TargetDesc &,
                                    Knobs &,
                                    SmallVectorImpl<Schedule> &schedules) {
  ts::PackedDotOp op = firstOp<ts::PackedDotOp>(kernel);
  if (!op)
    return success(); // another matmul
  std::optional<PackedMatmulGpuConfig> base = configFor(op);
  if (!base)
    return kernel.emitOpError(
        "has integers whose depth or groups no access reaches");
  SmallVector<Dim> rows = ts::dimsOf(op.getInput());
  rows.pop_back();
  Dim n = ts::dimOf(op.getWeight(), 0), m = ts::product(n.context(), rows);
  // What f32 is split into takes the registers of more rows.
  bool wide = ts::elementTypeOf(op.getInput()).isF32();
  auto add = [&](int64_t tileM, int64_t warpsN, std::optional<int64_t> most) {
    PackedMatmulGpuConfig config = *base;
    config.tileM = tileM;
    config.warpsN = warpsN;
    // As many warps as have a span, eight at most.
    constexpr int64_t warps = 8;
    config.warpsK =
        std::min<int64_t>(warps / warpsN, llvm::PowerOf2Ceil(config.spans()));
    // What a thread has on its way at once, in words: two columns' integers and
    // scales and, of few rows, A's; in turns two rounds of that. Sums of many
    // rows leave it fewer registers, and so do the parts of f32.
    int64_t own = llvm::divideCeil(config.spans(), config.warpsK);
    int64_t words = config.access / 2 + (config.groups() > 1 ? 2 : 0) +
                    (tileM == 8 && !wide ? config.lanes() / 2 : 0);
    int64_t registers = tileM > 16 ? 15 : tileM > 8 || wide ? 40 : 104;
    config.stages = own * words <= registers
                        ? own
                        : std::max<int64_t>(1, registers / 2 / words);
    Schedule schedule;
    schedule.kind = "gpu_packed_matmul";
    schedule.parameters = config::print(config);
    schedule.grid =
        m.ceilDiv(m.like(tileM)) * n.ceilDiv(n.like(config.tileN()));
    schedule.grain = m.like(1);
    schedule.scratch = m.like(0);
    if (most)
      schedule.guard.terms.push_back(
          {m, ts::ComparePredicate::le, m.like(*most)});
    schedules.push_back(std::move(schedule));
  };
  struct Form {
    int64_t most, tileM, warpsN;
  };
  SmallVector<Form> forms{{8, 8, 1}, {16, 16, 1}};
  if (!wide)
    forms.push_back({kMostPackedRows, 32, 4});
  else if (op.getExpanded())
    forms.push_back({kMostPackedRows, 16, 8});
  Form rest = wide ? Form{0, 16, 8} : Form{0, 64, 8};
  std::optional<int64_t> known = m.asConstant();
  for (const Form &form : forms) {
    if (known && *known > form.most)
      continue;
    add(form.tileM, form.warpsN,
        known ? std::nullopt : std::optional(form.most));
    if (known)
      return success();
  }
  // Of more rows gpu_matmul reads the floats, where there are any.
  if (!op.getExpanded())
    add(rest.tileM, rest.warpsN, std::nullopt);
  return success();
}

LogicalResult buildGpuPackedMatmul(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  auto config = configOf<PackedMatmulGpuConfig>(context);
  if (failed(config))
    return failure();
  ts::PackedDotOp dot = firstOp<ts::PackedDotOp>(context.kernel);
  if (!dot)
    return context.kernel.emitOpError("has no matmul of packed integers");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, dot.getResult());
  if (failed(epilogue))
    return failure();
  // Reshapes leave the input's rows one behind the other.
  Value input = dot.getInput();
  while (Operation *view = input.getDefiningOp())
    input = view->getOperand(0);
  SmallVector<Value> buffers;
  for (Value operand : {input, Value(dot.getWeight()), Value(dot.getScale())})
    buffers.push_back(e.inputBuffer(cast<BlockArgument>(operand)));
  SmallVector<Dim> rows = ts::dimsOf(dot.getResult());
  Dim n = rows.pop_back_val();
  auto op = tile::PackedMatmulOp::create(
      b, loc, buffers[0], buffers[1], buffers[2],
      e.size(ts::product(n.context(), rows)), e.size(n),
      config::attributeOf(config::print(*config), b.getContext()));
  Block &block = op.getBody().emplaceBlock();
  Value value = block.addArgument(b.getF32Type(), loc);
  Value row = block.addArgument(b.getIndexType(), loc),
        column = block.addArgument(b.getIndexType(), loc);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&block);
  return e.scoped([&]() -> LogicalResult {
    Coord coord;
    coord.lanes = 0;
    for (Value index : e.delinearize(row, rows))
      coord.dims.push_back({index});
    coord.dims.push_back({column});
    if (failed(epilogue->store(e, value, coord)))
      return failure();
    tile::StoredOp::create(b, loc);
    return success();
  });
}

} // namespace knapper
