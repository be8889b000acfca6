// Convolutions with channels last: implicit matmuls, no im2col.
//
// Of a kernel row, (window column, channel) is one consecutive run of the
// input, so a kh x kw convolution is kh accumulated matmuls whose A rows
// (output pixels of one image row) lie stride * C elements apart and overlap.
//
//   program = (image, output plane, block of output rows, block of output
//              columns, group of panels of output channels)
//     the input that the block needs, with their border, go to scratch
//     (only when there is a border; otherwise they are read in place)
//     for each panel, output row and register tile: one main loop, its sums
//     to scratch, from where one epilogue takes them pixel by pixel
//
// While a panel is used, the next one is fetched. One too large to stay in the
// second-level cache beside it is taken a window row at a time for all tiles of
// the block (`split`), whose sums stay in scratch meanwhile.
//
// Of a grouped convolution a program takes one group: it copies the channels of
// its group, so that they are a consecutive run again, and of panels that it
// shares with other groups it stores its own features.
//
// Of a convolution with dilated rows, or of a transposed one, a program takes a
// phase: output rows (and columns) so far apart that they are an ordinary
// convolution over some rows of the input, or with some taps of the window
// (ConvWindow.h). Taps that are no run of the input are matmuls of their own.
//
// The filter [kh, kw, C, F] is a constant packed in panels, or one that the
// program packed (graph/layout/PackFilters.h), or lies in torch's order: then a
// program has all pixels of an image and one panel, of which it transposes some
// channels at a time (`chunk`) to scratch. The filter's rows are the window and
// channel, its columns the output channels. Of bf16 its rows are packed in
// pairs, where no pair is of two window rows. Of bytes in groups of four: each
// window row begins one. Their sums are i32.
//
// Parameters: panel, rows and columns of a block of outputs (columns 0: all),
// groups (programs that share a block's panels), split, chunk.
#include "codegen/schedule/conv/CpuConv.h"
#include "codegen/schedule/core/Grain.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "codegen/schedule/core/Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using config::ConvCpuConfig;
using ts::Dim;

int64_t convSumBytes(const ConvCpuConfig &config, const ConvWindow &w) {
  constexpr int64_t tile = 4096;
  if (!config.split && !config.chunk)
    return tile;
  int64_t block = config.rows * *w.outWidth.asConstant() * config.panel * 4;
  return std::max(tile, (block + 63) / 64 * 64);
}

int64_t convChunkBytes(const ConvCpuConfig &config, const ConvWindow &w) {
  return w.kh * w.kw * config.chunk * config.panel * 4;
}

int64_t convRun(const ConvWindow &w) {
  return *w.groupChannels().asConstant() * (w.rowIsRun() ? w.kw : 1);
}

int64_t convGroup(const ConvWindow &w) {
  if (w.isBytes())
    return 4;
  bool whole = (w.rowIsRun() && w.windowRows() == 1) || convRun(w) % 2 == 0;
  return ts::elementTypeOf(w.input).isBF16() && whole ? 2 : 1;
}

int64_t packedConvRun(const ConvWindow &w) {
  int64_t step = convGroup(w);
  return (convRun(w) + step - 1) / step * step;
}

ConvBuilder::Taps ConvBuilder::taps(Value phase, int64_t window, int64_t spread,
                                    Dim low) {
  // Tap i of output o meets the input's elements at o - low + i. In those that
  // are no zeros that is a multiple of the spread.
  int64_t border = *low.asConstant();
  if (spread == 1)
    return {e.constant(0), e.constant(window), e.constant(-border)};
  Value by = e.constant(spread);
  Value first = e.rem(e.sub(e.constant(border % spread + spread), phase), by);
  Value count = e.div(e.sub(e.constant(window + spread - 1), first), by);
  int64_t before = (border + spread - 1) / spread;
  Value place =
      e.add(e.add(phase, first), e.constant(before * spread - border));
  return {first, count, e.sub(e.div(place, by), e.constant(before))};
}

LogicalResult ConvBuilder::build() {
  if (w.inPlace != (chunk > 0) || (chunk && (*w.channels.asConstant() % chunk ||
                                             chunk % target.lanes(DType::f32))))
    return w.op.emitOpError("has a filter that no chunks of ")
           << chunk << " channels divide";
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim one = w.images.like(1);
  Dim rowBlocks = w.phaseHeight().ceilDiv(one * blockRows);
  Dim columnBlocks =
      blockColumns ? w.phaseWidth().ceilDiv(one * blockColumns) : one;
  SmallVector<Value> index = e.delinearize(
      id, {w.outPlanes(), one * w.rowPhases(), one * w.columnPhases(),
           rowBlocks, columnBlocks, one * groups});
  image = index[0];
  if (w.hasPlanes()) {
    plane = e.rem(index[0], e.size(w.outDepth));
    image = e.div(index[0], e.size(w.outDepth));
  }
  rowPhase = index[1];
  columnPhase = index[2];
  tapRows = taps(rowPhase, w.kh, w.spreadH, w.lowH);
  tapColumns = taps(columnPhase, w.kw, w.spreadW, w.lowW);
  // Outputs of the phase, which may be one less than of the first.
  auto ofPhase = [&](Dim size, Value phase, int64_t phases) {
    if (phases == 1)
      return e.size(size);
    Value more = e.sub(e.add(e.size(size), e.constant(phases - 1)), phase);
    return e.div(more, e.constant(phases));
  };
  Value height = ofPhase(w.outHeight, rowPhase, w.rowPhases()),
        width = ofPhase(w.outWidth, columnPhase, w.columnPhases());
  firstRow = e.mul(index[3], e.constant(blockRows));
  rows = e.min(e.constant(blockRows), e.sub(height, firstRow));
  firstColumn = e.mul(index[4], e.constant(blockColumns));
  columns = blockColumns
                ? e.min(e.constant(blockColumns), e.sub(width, firstColumn))
                : width;
  Value group = index[5];
  // This program's share of the panels.
  int64_t panels = (*w.features.asConstant() + panel - 1) / panel;
  Value first = e.div(e.mul(group, e.constant(panels)), e.constant(groups));
  Value end = e.div(e.mul(e.add(group, e.constant(1)), e.constant(panels)),
                    e.constant(groups));
  firstChannel = e.constant(0);
  pixelStride = e.size(w.channels);
  if (w.groups > 1) {
    int64_t share = *w.features.asConstant() / w.groups;
    firstFeature = e.mul(group, e.constant(share));
    endFeature = e.add(firstFeature, e.constant(share));
    first = e.div(firstFeature, e.constant(panel));
    end = e.div(e.add(endFeature, e.constant(panel - 1)), e.constant(panel));
  }
  if (w.copies()) {
    // Row r of scratch is the input row that the first tap meets r rows on.
    Value rowZero = w.spreadH > 1 ? e.constant(0) : rowPhase;
    Value top = e.add(e.mul(firstRow, e.constant(w.sh * w.rowStep())),
                      e.add(rowZero, tapRows.input));
    Value needed =
        e.add(e.mul(e.sub(rows, e.constant(1)), e.constant(w.sh)),
              e.constant((w.tapRows() - 1) * (w.dh / w.rowStep()) + 1));
    Value left = e.add(e.mul(firstColumn, e.constant(w.sw)), tapColumns.input);
    Dim widest = w.inputColumns(blockColumns ? w.width.like(blockColumns)
                                             : w.phaseWidth());
    std::optional<ChannelSlice> slice;
    if (w.groups > 1) {
      int64_t share = *w.groupChannels().asConstant();
      firstChannel = e.mul(group, e.constant(share));
      slice = {firstChannel, share};
    }
    ConvRows copy = copyConvRows(e, w, image, top, needed, left, widest,
                                 sumBytes + chunkBytes, slice, plane);
    source = copy.source;
    sourceBase = copy.base;
    rowStride = copy.rowStride;
    pixelStride = copy.pixelStride;
    planeStep = copy.planeStride;
  } else {
    source = e.inputBuffer(w.input);
    rowStride = e.size(w.width * w.channels * w.rowStep());
    Value row = e.mul(firstRow, e.constant(w.sh * w.rowStep()));
    Value first = image;
    if (w.hasPlanes())
      first =
          e.add(e.mul(image, e.size(w.depth)), e.mul(plane, e.constant(w.sd)));
    row = e.add(e.add(e.mul(first, e.size(w.height)), row), rowPhase);
    planeStep =
        e.mul(e.size(w.height * w.width * w.channels), e.constant(w.dd));
    sourceBase = e.add(e.mul(row, e.size(w.width * w.channels)),
                       e.mul(firstColumn, e.size(w.channels * w.sw)));
  }
  return matmul(first, end);
}

namespace {

/// Groups of fewer features are left to others: panels are of 16 or more, so
/// that most of what is multiplied would be another group's.
bool takesConv(const ConvWindow &w) {
  constexpr int64_t leastFeatures = 8;
  return (w.isConstant || w.panel) &&
         (w.groups == 1 ||
          *w.features.asConstant() / w.groups >= leastFeatures);
}

/// Of outputs. Columns 0: all.
struct ConvBlock {
  int64_t rows = 1, columns = 0;
};

/// As many output rows, or columns of one, as keep the input of a block within
/// `budget` bytes.
ConvBlock matmulBlock(const ConvWindow &w, int64_t budget) {
  int64_t height = std::max<int64_t>(1, representative(w.phaseHeight())),
          width = std::max<int64_t>(1, representative(w.phaseWidth()));
  // (Of all planes of a window.)
  int64_t pixelBytes = *w.channels.asConstant() * w.elementBytes() * w.kd;
  auto inputColumns = [&](int64_t columns) {
    return *w.inputColumns(w.width.like(columns)).asConstant();
  };
  int64_t rowBytes = inputColumns(width) * pixelBytes;
  // Rows between windows are not read where they lie.
  auto readRows = [&](int64_t rows) {
    return w.hasBorder() ? w.inputRows(rows)
                         : std::min(w.inputRows(rows), rows * w.tapRows());
  };
  ConvBlock block;
  if (rowBytes * w.inputRows(1) > budget) {
    int64_t span = inputColumns(1);
    int64_t columns =
        (budget / (w.inputRows(1) * pixelBytes) - span) / w.sw + 1;
    columns = std::max<int64_t>(24, columns / 24 * 24);
    // Blocks of equal width, as far as whole tiles go.
    if (w.outWidth.asConstant()) {
      int64_t count = (width + columns - 1) / columns;
      columns = std::min(columns, ((width + count - 1) / count + 23) / 24 * 24);
    }
    if (columns < width) {
      block.columns = columns;
      return block;
    }
  }
  while (block.rows < height && readRows(block.rows + 1) * rowBytes <= budget &&
         block.rows < 16)
    ++block.rows;
  if (w.outHeight.asConstant())
    block.rows = evenRows(height, block.rows);
  return block;
}

ConvBlock chooseBlock(const ConvWindow &w, const TargetDesc &target,
                      Knobs &knobs) {
  // Each block would transpose the whole filter.
  if (w.inPlace)
    return {*w.outHeight.asConstant(), 0};
  // Each block of rows reads the whole filter: one that comes from memory is
  // worth larger blocks.
  int64_t filter = 4 * w.windowRows() * w.kw * *w.channels.asConstant() *
                   *w.features.asConstant();
  int64_t budget =
      filter > target.l3Bytes / 4 ? target.l2Bytes / 2 : target.l2Bytes / 4;
  // A quarter or double of the block.
  config::ConvCpuPlan plan;
  knobs.tune(plan, plan.share);
  if (plan.share != 4)
    budget = budget * 4 / plan.share;
  return matmulBlock(w, budget);
}

/// The most channels, a divisor of all and in whole blocks of a transpose,
/// whose taps take a quarter of the second-level cache.
int64_t chooseChunk(const ConvWindow &w, const TargetDesc &target,
                    int64_t panel) {
  constexpr int64_t step = 16;
  int64_t channels = *w.channels.asConstant();
  int64_t most = target.l2Bytes / 4 / (w.kh * w.kw * panel * 4);
  int64_t chunk = step;
  for (int64_t other = step; other <= std::min(most, channels); other += step)
    if (channels % other == 0)
      chunk = other;
  return chunk;
}

} // namespace

LogicalResult chooseCpuConv(ts::KernelOp kernel, const TargetDesc &target,
                            Knobs &knobs,
                            SmallVectorImpl<Schedule> &schedules) {
  std::optional<ConvWindow> w = analyseConv(kernel);
  if (!w || !takesConv(*w))
    return success(); // the loop schedule takes it
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  int64_t run = epilogue->runDivisor();
  if (w->panel && run && run % w->panel)
    return success(); // panels that results cut
  ConvCpuConfig config;
  int64_t &panel = config.panel;
  if (w->panel)
    panel = w->panel;
  else
    chooseConvPanel(*w, run, config, knobs);
  int64_t channels = *w->groupChannels().asConstant(),
          features = *w->features.asConstant();
  int64_t panels = (features + panel - 1) / panel;
  ConvBlock block = chooseBlock(*w, target, knobs);
  int64_t rows = config.rows = block.rows,
          columns = config.columns = block.columns;
  int64_t height = std::max<int64_t>(1, representative(w->phaseHeight())),
          width = std::max<int64_t>(1, representative(w->phaseWidth()));
  int64_t phases = w->rowPhases() * w->columnPhases();
  int64_t planes = std::max<int64_t>(1, representative(w->outDepth));
  int64_t blocks = planes * phases * ((height + rows - 1) / rows);
  if (columns)
    blocks *= (width + columns - 1) / columns;
  int64_t &groups = config.groups;
  groups = std::clamp<int64_t>((8 + blocks - 1) / blocks, 1, panels);
  std::vector<int64_t> otherGroups = config::spaceOf(config, groups);
  otherGroups.push_back(panels);
  std::erase_if(otherGroups, [&](int64_t other) {
    return other < 1 || other > std::min<int64_t>(panels, 64);
  });
  // A program takes one group of the convolution, or one panel.
  if (w->groups > 1)
    groups = w->groups;
  else if (w->inPlace)
    groups = panels;
  else
    knobs.tune(config, groups, otherGroups);
  if (w->inPlace)
    config.chunk = chooseChunk(*w, target, panel);
  // A panel that leaves no room for the next one.
  constexpr int64_t mostSums = 64 << 10;
  if (!w->inPlace && w->groups == 1 && w->windowRows() > 1 && !columns &&
      !w->spreads() && w->outWidth.asConstant() &&
      rows * width * panel * 4 <= mostSums) {
    int64_t bytes = ts::elementBytes(ts::elementTypeOf(w->filter));
    int64_t quarter = target.l2Bytes / 4;
    config.split = w->windowRows() * w->kw * channels * panel * bytes > quarter;
    knobs.tune(config, config.split);
  }
  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "cpu_conv";
  schedule.parameters = config::print(config);
  schedule.grid = w->outPlanes() * w->phaseHeight().ceilDiv(one * rows) *
                  (columns ? w->phaseWidth().ceilDiv(one * columns) : one) *
                  (phases * groups);
  int64_t flops = 2 * rows * w->kd * w->tapRows() * w->tapColumns() * channels *
                  features / groups;
  schedule.grain = grainOf(w->isBytes() ? 1600000 : 400000,
                           (columns ? one * columns : w->phaseWidth()) * flops);
  int64_t pixelBytes = w->elementBytes() * channels * w->kd;
  int64_t sumBytes = convSumBytes(config, *w) + convChunkBytes(config, *w);
  schedule.scratch =
      w->copies() ? w->inputColumns(columns ? one * columns : w->phaseWidth()) *
                            (pixelBytes * w->inputRows(rows)) +
                        256 + sumBytes
                  : one * sumBytes;
  schedule.group = convGroup(*w);
  if (!w->panel)
    schedule.packed.push_back(
        {w->filter.getArgNumber(), w->windowRows() * w->kw * channels, features,
         /*transposed=*/false, panel, schedule.group,
         /*winograd=*/false, /*nibbles=*/false,
         /*pieces=*/w->isBytes() ? w->windowRows() * (w->rowIsRun() ? 1 : w->kw)
                                 : 1});
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuConv(BuildContext &context) {
  return buildConvBy<ConvBuilder>(context);
}

} // namespace knapper
