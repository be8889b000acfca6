// When a convolution is computed directly, and by which threads.
//
// Of few channels, features and taps most of a tile of matmuls is padding, and
// images with channels first are transposed before and behind it. The model
// counts what a thread issues, what moves, and the same of the matmul.
#include "codegen/schedule/conv/Depthwise.h"
#include "codegen/schedule/conv/DirectConv.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/Schedules.h"
#include "codegen/schedule/matmul/GpuMatmulCost.h"
#include "ir/config/ConvConfig.h"
#include "ir/tensor/SymbolicValue.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

int64_t ceil(int64_t x, int64_t by) { return (x + by - 1) / by; }

int64_t elementsOf(ArrayRef<Dim> dims) {
  int64_t count = 1;
  for (Dim dim : dims)
    count *= std::max<int64_t>(1, representative(dim));
  return count;
}

int64_t bytesOf(ts::ConvOp op) {
  return ts::elementBytes(ts::elementTypeOf(op.getInput()));
}

/// Multiply-adds in the code of a thread and channel, at most, and registers of
/// a thread of which an SM holds 512. Weights in a loop over channels are read
/// ahead: more of them than this spill.
constexpr int64_t mostSteps = 640, mostRegisters = 80, mostWeights = 72;

/// What a thread keeps: its sums, the elements that it sees and where they lie
/// from channel to channel, where its features' weights begin.
int64_t registersOf(const DirectConv &c, const DirectShape &shape) {
  const int64_t others = c.channels > 1 ? 24 : 16;
  int64_t seen = neighboursSeen(shape.rows, c.sh, c.kh, c.dh) * c.kw;
  return shape.features * shape.rows + (c.channels > 1 ? 3 : 2) * seen +
         (c.features % shape.features ? 4 * shape.features : 0) + others;
}

double secondsOf(const DirectConv &c, const TargetDesc &target,
                 const DirectShape &shape) {
  int64_t taps = c.kh * c.kw, sums = shape.features * shape.rows;
  double seen = double(neighboursSeen(shape.rows, c.sh, c.kh, c.dh) * c.kw);
  double weights = double(shape.features * taps);
  bool half = bytesOf(c.op) < 4;
  // Of a thread, in instructions: accesses, which the cache takes one a cycle,
  // and all, of which an SM issues four.
  double accesses = double(c.channels) * (seen + weights) + double(sums);
  double around = c.isPadded(0) || c.isPadded(1) ? 2 : 0, each = half ? 1 : 0;
  constexpr double start = 80, ofStore = 3;
  double all = accesses + start + ofStore * double(sums) +
               double(c.channels) * ((around + each) * seen + each * weights +
                                     double(sums * taps));
  int64_t threads = elementsOf({c.output[0], c.output[3]}) * c.groups *
                    ceil(c.features, shape.features) *
                    ceil(representative(c.output[2]), shape.rows);
  double warps = double(ceil(threads, 32 * int64_t(target.cores)));
  // A channel's loads are waited for together; other warps compute meanwhile.
  constexpr double wait = 700, most = 16;
  double latency = double(c.channels) * wait * std::ceil(warps / most);
  // Against what was measured on an H100 and an H200.
  constexpr double busy = 1.7;
  double cycles = std::max(busy * warps * std::max(accesses, all / 4), latency);
  double bytes = double(bytesOf(c.op)) *
                 double(elementsOf(c.input) + elementsOf(c.output));
  return target.launchSeconds +
         std::max(cycles / target.clock, bytes / target.copyBandwidth);
}

/// The same as a matmul with channels last, the transpositions apart.
double matmulSeconds(const DirectConv &c, const TargetDesc &target) {
  int64_t bytes = bytesOf(c.op), channels = c.channels, features = c.features;
  GpuMatmulProblem p{};
  p.machine = target;
  p.batch = c.groups;
  p.m = elementsOf({c.output[0], c.output[2], c.output[3]});
  if (bytes == 2 && target.wgmma) {
    channels = llvm::alignTo(channels, 8);
    features = llvm::alignTo(features, 8);
    p.n = features;
    p.k = channels * c.kh * c.kw;
    p.aPitch = p.k;
    p.bPitch = p.n;
    p.bTransposed = true;
    p.stores = p.gathered = true;
    return modelledCycles(chooseTileShape(p), p) / target.clock;
  }
  // Tiles of FMAs reach half of what the units give; the least is 16 columns.
  constexpr int64_t leastColumns = 16;
  constexpr double reached = 0.5;
  double flops = 2.0 * double(p.batch * p.m) * double(c.kh * c.kw * channels) *
                 double(llvm::alignTo(features, leastColumns));
  double moved =
      double(bytes) * double(elementsOf(c.input) + elementsOf(c.output));
  return target.launchSeconds + std::max(flops / (reached * target.fmaFlops),
                                         moved / target.copyBandwidth);
}

double transposeSeconds(ArrayRef<Dim> dims, int64_t bytes,
                        const TargetDesc &target) {
  return target.launchSeconds +
         2.0 * double(bytes * elementsOf(dims)) / target.copyBandwidth;
}

/// Whether an input lies as the caller of the model gave it.
bool comesFirst(Value x) {
  while (Operation *op = x.getDefiningOp()) {
    if (!isa<ts::ElementwiseOpInterface>(op) || op->getNumOperands() == 0)
      return false;
    x = op->getOperand(0);
  }
  return true;
}

/// What the result's way through elementwise ops ends at: a convolution or pool
/// (`others` false), or anything else (true).
bool endsAt(Value x, bool others) {
  constexpr int mostOps = 32;
  SmallVector<Value> work{x};
  for (int count = 0; !work.empty() && count < mostOps; ++count)
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<ts::ElementwiseOpInterface>(user))
        llvm::append_range(work, user->getResults());
      else if (isa<ts::ConvOp, ts::PoolOp>(user) != others)
        return true;
    }
  return false;
}

} // namespace

bool DirectConv::isPadded(unsigned dim) const {
  ts::ConvOp conv = op;
  return !ts::dimsOf(conv.getLow())[dim].isConstant(0) ||
         !ts::dimsOf(conv.getHigh())[dim].isConstant(0);
}

std::optional<DirectConv> directConvOf(ts::ConvOp op) {
  Type element = ts::elementTypeOf(op.getInput());
  if (op.getChannelsLast() || op.getStrides().size() != 2 ||
      !(element.isF32() || element.isF16() || element.isBF16()) ||
      element != ts::elementTypeOf(op.getFilter()) ||
      llvm::any_of(op.getInputDilations(), [](int64_t d) { return d != 1; }))
    return std::nullopt;
  DirectConv c{op};
  c.input = ts::dimsOf(op.getInput());
  c.output = ts::dimsOf(op.getResult());
  SmallVector<Dim> filter = ts::dimsOf(op.getFilter());
  auto number = [](Dim dim) { return dim.asConstant().value_or(0); };
  c.groups = op.getGroups();
  c.features = number(filter[0]) / c.groups;
  c.channels = number(filter[1]);
  c.kh = number(filter[2]);
  c.kw = number(filter[3]);
  c.sh = op.getStrides()[0];
  c.sw = op.getStrides()[1];
  c.dh = op.getDilations()[0];
  c.dw = op.getDilations()[1];
  auto hasElements = [](Dim dim) {
    auto least = ts::lowerBound(dim);
    return least && *least >= 1;
  };
  if (c.features < 1 || c.channels < 1 || c.kh < 1 || c.kw < 1 ||
      !hasElements(c.input[2]) || !hasElements(c.input[3]))
    return std::nullopt;
  return c;
}

std::optional<DirectShape> directShapeOf(const DirectConv &conv,
                                         const TargetDesc &target) {
  std::optional<DirectShape> best;
  constexpr int64_t mostFeatures = 32;
  for (int64_t parts = 1; parts <= conv.features; ++parts) {
    int64_t features = ceil(conv.features, parts);
    if (features > mostFeatures)
      continue;
    for (int64_t rows : {8, 4, 2, 1}) {
      DirectShape shape{features, rows};
      if (registersOf(conv, shape) > mostRegisters ||
          features * rows * conv.kh * conv.kw > mostSteps ||
          (conv.channels > 1 && features * conv.kh * conv.kw > mostWeights))
        continue;
      shape.seconds = secondsOf(conv, target, shape);
      if (!best || shape.seconds < best->seconds)
        best = shape;
    }
    if (features == 1)
      break;
  }
  return best;
}

bool isTakenDirectly(ts::ConvOp op, const TargetDesc &target) {
  std::optional<DirectConv> conv = directConvOf(op);
  // A window of one element is a matmul of two matrices; of one feature a
  // channel a depthwise convolution.
  if (!target.simt || !conv || conv->kh * conv->kw == 1 ||
      (conv->groups > 1 && conv->channels * conv->features == 1))
    return false;
  std::optional<DirectShape> shape = directShapeOf(*conv, target);
  if (!shape)
    return false;
  int64_t bytes = bytesOf(op);
  double direct = shape->seconds, matmul = matmulSeconds(*conv, target);
  if (comesFirst(op.getInput()))
    matmul += transposeSeconds(conv->input, bytes, target);
  else
    direct += transposeSeconds(conv->input, bytes, target);
  if (endsAt(op.getResult(), /*others=*/false))
    direct += transposeSeconds(conv->output, bytes, target);
  if (endsAt(op.getResult(), /*others=*/true))
    matmul += transposeSeconds(conv->output, bytes, target);
  return direct < matmul;
}

LogicalResult chooseGpuDirectConv(ts::KernelOp kernel, const TargetDesc &target,
                                  Knobs &knobs,
                                  SmallVectorImpl<Schedule> &schedules) {
  auto ops = kernel.getBody().getOps<ts::ConvOp>();
  if (!llvm::hasSingleElement(ops) ||
      failed(Epilogue::create(kernel, (*ops.begin()).getResult())))
    return success();
  std::optional<DirectConv> conv = directConvOf(*ops.begin());
  if (!conv || !isa<BlockArgument>(conv->op.getFilter()) ||
      (conv->groups > 1 && conv->channels * conv->features == 1))
    return success();
  // (Channels that are first here were kept first for this schedule, or the
  // graph has no other convolutions.)
  std::optional<DirectShape> shape = directShapeOf(*conv, target);
  if (!shape)
    return success();
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "gpu_direct_conv";
  schedule.parameters = config::print(config::DirectConvGpuConfig{
      .features = shape->features, .rows = shape->rows, .threads = 1});
  schedule.grid =
      conv->output[0] *
      (one * (conv->groups * ceil(conv->features, shape->features))) *
      conv->output[2].ceilDiv(one * shape->rows) * conv->output[3];
  schedule.grain = one;
  schedule.scratch = one * 0;
  schedules.push_back(std::move(schedule));
  return success();
}

} // namespace knapper
