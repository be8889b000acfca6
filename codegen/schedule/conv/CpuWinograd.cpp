// Convolutions with windows of 3 x 3 and stride 1 by Winograd's F(2x2, 3x3):
// sixteen matmuls of the transformed input and filter instead of nine times
// four, 2.25 times fewer multiplications.
//
//   tile    = 2 x 2 outputs, of which 4 x 4 inputs are read: d
//   V[x]    = B^T d B, x = 0 .. 15          [tiles][C]
//   M[x]    = V[x] U[x], U = G g G^T packed [tiles][panel]
//   outputs = A^T M A
//
//   program = (image, block of tile rows, block of tile columns, group of
//              panels of output channels)
//     the input that the block needs, with its border, and V go to scratch
//     for each panel: sixteen matmuls to scratch, then tile by tile the four
//     outputs, and one epilogue that takes them pixel by pixel
//
// Tiles that reach past the image compute outputs that are dropped. The sums
// differ from those of the direct form by a few roundings of the inputs' size
// (2e-7 of the largest output); a value that is not finite reaches all four
// outputs of its tiles.
//
// A filter that is no constant is transformed by every program, four matrices
// of one panel at a time, from the panels that the program before it packed
// ([F / panel, 3, 3, C, panel], see PackFilters.h).
//
// Parameters: panel, rows and columns of a block (in tiles, at most), groups.
#include "codegen/schedule/conv/ConvWindow.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/RegisterTiles.h"
#include "codegen/schedule/core/Schedules.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace knapper {

using config::WinogradCpuConfig;
using ts::Dim;

namespace {

constexpr int64_t kMatrices = 16, kSide = 4, kOut = 2;
/// Rows of a register tile that may lie past a block's tiles.
constexpr int64_t kMoreRows = 12;

bool takesWinograd(const ConvWindow &w) {
  return (w.isConstant || (w.panel && !w.inPlace)) && w.kh == 3 && w.kw == 3 &&
         w.sh == 1 && w.sw == 1 && w.dh == 1 && w.dw == 1 && !w.spreads() &&
         w.groups == 1 && !w.rowsAsColumns && w.spatial == 2 &&
         ts::elementTypeOf(w.input).isF32();
}

/// Where a program's scratch lies, in elements unless said otherwise.
struct WinogradLayout {
  int64_t tiles;        ///< of a block, at most
  int64_t inputMatrix;  ///< from one V to the next
  int64_t outputMatrix; ///< from one M to the next
  // Bytes from the start.
  int64_t outputs = 0; ///< four outputs of one tile, [4][panel]
  int64_t v, m, source, filter, end;
  int64_t sourceColumns;

  /// `transforms`: four matrices of a panel's filter are in scratch, too.
  WinogradLayout(const WinogradCpuConfig &config, int64_t channels,
                 bool transforms) {
    int64_t panel = config.panel, rows = config.rows, columns = config.columns;
    tiles = rows * columns;
    inputMatrix = apart(tiles * channels);
    outputMatrix = apart(tiles * panel);
    auto lines = [](int64_t elements) { return (elements + 15) / 16 * 64; };
    v = lines(kOut * kOut * panel);
    m = v + lines(kMatrices * inputMatrix);
    source = m + lines(kMatrices * outputMatrix + kMoreRows * panel);
    sourceColumns = kOut * columns + 2;
    filter = source + lines((kOut * rows + 2) * sourceColumns * channels);
    end = filter + (transforms ? lines(kSide * channels * panel) : 0);
  }

private:
  /// Sixteen matrices a multiple of 1 KiB apart would share few cache sets.
  static int64_t apart(int64_t elements) {
    return elements % 256 ? elements : elements + 16;
  }
};

class WinogradBuilder {
public:
  using Config = WinogradCpuConfig;
  WinogradBuilder(BuildContext &context, const Config &config,
                  ConvWindow window, Epilogue epilogue)
      : e(context.emitter), b(e.builder), loc(e.location), w(std::move(window)),
        epilogue(std::move(epilogue)), panel(config.panel),
        blockRows(config.rows), blockColumns(config.columns),
        groups(config.groups), lanes(context.target.lanes(DType::f32)),
        shape(registerTile(context.target, panel)),
        layout(config, *w.channels.asConstant(), w.panel) {}

  LogicalResult build();

private:
  /// A tile of the block and its place among the outputs.
  struct Tile {
    Value number, y, x;
  };
  LogicalResult forTiles(llvm::function_ref<LogicalResult(const Tile &)> body);
  LogicalResult transformInput();
  /// Row `y` of U of one panel, to scratch.
  LogicalResult transformFilter(Value panelIndex, int64_t y);
  LogicalResult multiplyPanel(Value panelIndex);
  /// M of matrices from `first` on, whose U begin at `weights` in `filter`.
  LogicalResult multiply(Value filter, Value weights, Value first,
                         int64_t count);
  /// As forRowTiles takes them, of the tiles of a block.
  SmallVector<int64_t> tileCounts() const;
  LogicalResult transformOutput(Value panelIndex);
  LogicalResult storeOutputs(const Tile &tile, Value feature);

  Value scratch(int64_t bytes) {
    return tile::ScratchOp::create(
        b, loc, tile::BufferType::get(b.getF32Type()), e.constant(bytes));
  }
  Value load(int64_t width, Value buffer, Value at, Value valid = {}) {
    return tile::LoadOp::create(b, loc, VectorType::get(width, b.getF32Type()),
                                buffer, at, valid);
  }
  Value plus(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value minus(Value x, Value y) { return arith::SubFOp::create(b, loc, x, y); }

  ElementEmitter &e;
  OpBuilder &b;
  Location loc;
  ConvWindow w;
  Epilogue epilogue;
  int64_t panel, blockRows, blockColumns, groups, lanes;
  RegisterTile shape;
  WinogradLayout layout;

  Value image, firstRow, rows; ///< of the block, in tiles
  Value firstColumn, columns;  ///< likewise
  ConvRows padded;
  Value v, m, u, outputs;
};

LogicalResult WinogradBuilder::forTiles(
    llvm::function_ref<LogicalResult(const Tile &)> body) {
  return forEach(e, e.constant(0), rows, [&](Value y) {
    Value before = e.mul(y, columns);
    return forEach(e, e.constant(0), columns,
                   [&](Value x) { return body({e.add(before, x), y, x}); });
  });
}

LogicalResult WinogradBuilder::transformInput() {
  int64_t channels = *w.channels.asConstant();
  return forTiles([&](const Tile &tile) {
    Value corner =
        e.add(e.mul(e.mul(tile.y, e.constant(kOut)), padded.rowStride),
              e.mul(tile.x, e.constant(kOut * channels)));
    Value to = e.mul(tile.number, e.constant(channels));
    return forLanes(
        e, e.constant(0), e.constant(channels), lanes, channels % lanes == 0,
        [&](Value c, Value valid) {
          // B^T along the columns of d, then along its rows.
          auto transform = [&](std::array<Value, kSide> d) {
            return std::array<Value, kSide>{minus(d[0], d[2]), plus(d[1], d[2]),
                                            minus(d[2], d[1]),
                                            minus(d[1], d[3])};
          };
          std::array<std::array<Value, kSide>, kSide> half;
          for (int64_t x = 0; x < kSide; ++x) {
            std::array<Value, kSide> column;
            for (int64_t y = 0; y < kSide; ++y) {
              Value at =
                  e.add(e.add(corner, e.mul(e.constant(y), padded.rowStride)),
                        e.add(c, e.constant(x * channels)));
              column[y] = load(lanes, padded.source, at, valid);
            }
            column = transform(column);
            for (int64_t y = 0; y < kSide; ++y)
              half[y][x] = column[y];
          }
          for (int64_t y = 0; y < kSide; ++y) {
            std::array<Value, kSide> row = transform(half[y]);
            for (int64_t x = 0; x < kSide; ++x)
              tile::StoreOp::create(
                  b, loc, row[x], v,
                  e.add(e.add(to, c),
                        e.constant((y * kSide + x) * layout.inputMatrix)),
                  valid);
          }
          return success();
        });
  });
}

LogicalResult WinogradBuilder::transformFilter(Value panelIndex, int64_t y) {
  int64_t matrix = *w.channels.asConstant() * panel;
  Value taps = e.inputBuffer(w.filter);
  Value from = e.mul(panelIndex, e.constant(3 * 3 * matrix));
  auto half = [&](Value x) -> Value {
    auto type = cast<ShapedType>(x.getType());
    Value factor =
        arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, 0.5f));
    return arith::MulFOp::create(b, loc, x, factor);
  };
  // G: three taps become four.
  auto spread = [&](Value first, Value middle, Value last) {
    Value ends = plus(first, last);
    return std::array<Value, kSide>{first, half(plus(ends, middle)),
                                    half(minus(ends, middle)), last};
  };
  return forEach(
      e, e.constant(0), e.constant(matrix),
      [&](Value i) {
        std::array<Value, 3> row;
        for (int64_t x = 0; x < 3; ++x) {
          auto tap = [&](int64_t ty) {
            return load(
                lanes, taps,
                e.add(e.add(from, i), e.constant((ty * 3 + x) * matrix)));
          };
          if (y == 0 || y == kSide - 1) {
            row[x] = tap(y ? 2 : 0);
            continue;
          }
          Value ends = plus(tap(0), tap(2)), middle = tap(1);
          row[x] = half(y == 1 ? plus(ends, middle) : minus(ends, middle));
        }
        std::array<Value, kSide> made = spread(row[0], row[1], row[2]);
        for (int64_t x = 0; x < kSide; ++x)
          tile::StoreOp::create(b, loc, made[x], u,
                                e.add(i, e.constant(x * matrix)), Value());
        return success();
      },
      lanes);
}

LogicalResult WinogradBuilder::multiplyPanel(Value panelIndex) {
  int64_t matrix = *w.channels.asConstant() * panel;
  if (!w.panel)
    return multiply(e.inputBuffer(w.filter),
                    e.mul(panelIndex, e.constant(kMatrices * matrix)),
                    e.constant(0), kMatrices);
  // The multiplication, the longest part of the code, is emitted once.
  return forEach(e, e.constant(0), e.constant(kSide), [&](Value row) {
    for (int64_t y = 0; y < kSide; ++y) {
      Value isRow = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, row,
                                          e.constant(y));
      auto branch = scf::IfOp::create(b, loc, isRow, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
      if (failed(e.scoped([&] { return transformFilter(panelIndex, y); })))
        return failure();
    }
    return multiply(u, e.constant(0), e.mul(row, e.constant(kSide)), kSide);
  });
}

LogicalResult WinogradBuilder::multiply(Value filter, Value begin, Value first,
                                        int64_t count) {
  int64_t channels = *w.channels.asConstant();
  Value tiles = e.mul(rows, columns);
  Value share = e.constant(channels * 4); // elements of C/4 cache lines
  return forEach(e, e.constant(0), e.constant(count), [&](Value i) {
    Value weights = e.add(begin, e.mul(i, e.constant(channels * panel)));
    Value x = e.add(i, first);
    Value from = e.mul(x, e.constant(layout.inputMatrix));
    Value to = e.mul(x, e.constant(layout.outputMatrix));
    Value next = e.add(weights, e.constant(channels * panel));
    return forRowTiles(
        e, tiles, shape.rows,
        [&](Value row, Value valid, int64_t size, Value number) {
          Value a = e.add(from, e.mul(row, e.constant(channels)));
          Value sums = e.add(to, e.mul(row, e.constant(panel)));
          // The matrix that comes next, each register tile a share.
          Value fetch = e.add(next, e.mul(number, share));
          return forParts(e, shape, panel, [&](Value part) {
            auto loop = tile::MainloopOp::create(
                b, loc, VectorType::get({size, shape.width}, b.getF32Type()), v,
                a, e.constant(channels), e.constant(1), filter,
                e.add(weights, part), e.constant(panel), e.constant(channels));
            loop.getRowsMutable().assign(valid);
            if (!w.panel) {
              loop.getPrefetchMutable().assign(filter);
              loop.getPrefetchOffsetMutable().assign(fetch);
              loop.getPrefetchStepMutable().assign(e.constant(16));
            }
            for (int64_t i = 0; i < size; ++i)
              tile::StoreOp::create(
                  b, loc,
                  vector::ExtractOp::create(b, loc, loop.getAcc(),
                                            ArrayRef<int64_t>{i}),
                  m, e.add(sums, e.add(e.constant(i * panel), part)));
            return success();
          });
        },
        nullptr, /*known=*/{}, tileCounts());
  });
}

SmallVector<int64_t> WinogradBuilder::tileCounts() const {
  std::optional<int64_t> down = w.outHeight.asConstant(),
                         across = w.outWidth.asConstant();
  SmallVector<int64_t> counts;
  if (!down || !across || !*down || !*across)
    return counts;
  // Shares of `all` in as many blocks as it has of `block`.
  auto shares = [](int64_t all, int64_t block) {
    int64_t blocks = (all + block - 1) / block;
    return std::array{all / blocks, (all + blocks - 1) / blocks};
  };
  for (int64_t y : shares((*down + kOut - 1) / kOut, blockRows))
    for (int64_t x : shares((*across + kOut - 1) / kOut, blockColumns))
      for (int64_t count : countsOfTiles(y * x, shape.rows, y * x))
        if (!llvm::is_contained(counts, count))
          counts.push_back(count);
  return counts;
}

/// The outputs of one panel from its M.
LogicalResult WinogradBuilder::transformOutput(Value panelIndex) {
  Value feature = e.mul(panelIndex, e.constant(panel));
  return forTiles([&](const Tile &tile) -> LogicalResult {
    Value from = e.mul(tile.number, e.constant(panel));
    if (failed(forEach(
            e, e.constant(0), e.constant(panel),
            [&](Value part) {
              // A^T along the columns of M, then along its rows.
              auto transform = [&](std::array<Value, kSide> d) {
                return std::array<Value, kOut>{plus(plus(d[0], d[1]), d[2]),
                                               minus(minus(d[1], d[2]), d[3])};
              };
              std::array<std::array<Value, kSide>, kOut> half;
              for (int64_t x = 0; x < kSide; ++x) {
                std::array<Value, kSide> column;
                for (int64_t y = 0; y < kSide; ++y)
                  column[y] = load(
                      lanes, m,
                      e.add(e.add(from, part),
                            e.constant((y * kSide + x) * layout.outputMatrix)));
                std::array<Value, kOut> sums = transform(column);
                for (int64_t y = 0; y < kOut; ++y)
                  half[y][x] = sums[y];
              }
              for (int64_t y = 0; y < kOut; ++y) {
                std::array<Value, kOut> row = transform(half[y]);
                for (int64_t x = 0; x < kOut; ++x)
                  tile::StoreOp::create(
                      b, loc, row[x], outputs,
                      e.add(part, e.constant((y * kOut + x) * panel)));
              }
              return success();
            },
            lanes)))
      return failure();
    return storeOutputs(tile, feature);
  });
}

LogicalResult WinogradBuilder::storeOutputs(const Tile &tile, Value feature) {
  bool ragged = *w.features.asConstant() % panel;
  Value two = e.constant(kOut);
  Value firstY = e.mul(e.add(firstRow, tile.y), two),
        firstX = e.mul(e.add(firstColumn, tile.x), two);
  Value inRows = e.min(two, e.sub(e.size(w.outHeight), firstY)),
        inColumns = e.min(two, e.sub(e.size(w.outWidth), firstX));
  return forEach(e, e.constant(0), inRows, [&](Value y) {
    return forEach(e, e.constant(0), inColumns, [&](Value x) {
      Value from = e.mul(e.add(e.mul(y, two), x), e.constant(panel));
      return forParts(e, shape, panel, [&](Value part) {
        Value sum = load(shape.width, outputs, e.add(from, part));
        Value n = e.add(feature, part), rest;
        if (ragged)
          rest = e.sub(e.size(w.features), n);
        return storeConvPixel(e, w, epilogue, sum, image, e.add(firstY, y),
                              e.add(firstX, x), n, shape.width, rest);
      });
    });
  });
}

LogicalResult WinogradBuilder::build() {
  Value id = tile::ProgramIdOp::create(b, loc);
  Dim one = w.images.like(1);
  Dim tileRows = w.outHeight.ceilDiv(one * kOut),
      tileColumns = w.outWidth.ceilDiv(one * kOut);
  Dim rowBlocks = tileRows.ceilDiv(one * blockRows),
      columnBlocks = tileColumns.ceilDiv(one * blockColumns);
  SmallVector<Value> index =
      e.delinearize(id, {w.images, rowBlocks, columnBlocks, one * groups});
  image = index[0];
  // Equal shares of `all` in `count` blocks.
  auto share = [&](Value i, Value all, Value count) {
    Value first = e.div(e.mul(i, all), count);
    Value end = e.div(e.mul(e.add(i, e.constant(1)), all), count);
    return std::pair(first, end);
  };
  auto [row, endRow] = share(index[1], e.size(tileRows), e.size(rowBlocks));
  auto [column, endColumn] =
      share(index[2], e.size(tileColumns), e.size(columnBlocks));
  firstRow = row;
  rows = e.sub(endRow, row);
  firstColumn = column;
  columns = e.sub(endColumn, column);

  outputs = scratch(layout.outputs);
  v = scratch(layout.v);
  m = scratch(layout.m);
  if (w.panel)
    u = scratch(layout.filter);
  Value two = e.constant(kOut);
  padded =
      copyConvRows(e, w, image, e.sub(e.mul(firstRow, two), e.size(w.lowH)),
                   e.add(e.mul(rows, two), two),
                   e.sub(e.mul(firstColumn, two), e.size(w.lowW)),
                   one * layout.sourceColumns, layout.source);
  if (failed(transformInput()))
    return failure();
  int64_t panels = (*w.features.asConstant() + panel - 1) / panel;
  auto [first, end] = share(index[3], e.constant(panels), e.constant(groups));
  return forEach(e, first, end, [&](Value p) -> LogicalResult {
    if (failed(multiplyPanel(p)))
      return failure();
    return transformOutput(p);
  });
}

} // namespace

LogicalResult chooseCpuWinograd(ts::KernelOp kernel, const TargetDesc &target,
                                Knobs &knobs,
                                SmallVectorImpl<Schedule> &schedules) {
  std::optional<ConvWindow> w = analyseConv(kernel);
  if (!w || !takesWinograd(*w))
    return success();
  FailureOr<Epilogue> epilogue = Epilogue::create(kernel, w->op.getResult());
  if (failed(epilogue))
    return failure();
  WinogradCpuConfig config;
  int64_t run = epilogue->runDivisor();
  if (w->panel && run && run % w->panel)
    return success(); // panels that results cut
  if (w->panel)
    config.panel = w->panel;
  else
    chooseConvPanel(*w, run, config, knobs);
  int64_t panel = config.panel;
  int64_t channels = *w->channels.asConstant(),
          features = *w->features.asConstant();
  int64_t panels = (features + panel - 1) / panel;
  auto halved = [](Dim size) {
    return (std::max<int64_t>(1, representative(size)) + 1) / kOut;
  };
  int64_t height = halved(w->outHeight), width = halved(w->outWidth);
  auto blocks = [](int64_t size, int64_t of) { return (size + of - 1) / of; };
  int64_t &columns = config.columns, &rows = config.rows,
          &groups = config.groups;
  int64_t images = w->images.asConstant().value_or(1), number = 1;
  constexpr int64_t leastPrograms = 8;
  // Blocks of as many tiles as keep V, the sixteenfold input, in `fifths` of
  // L2; programs that share a block transform its input once each.
  auto cut = [&](int64_t fifths) {
    int64_t budget = target.l2Bytes * fifths / 5;
    int64_t most =
        std::clamp<int64_t>(budget / (kMatrices * channels * 4), 12, 96);
    columns = most;
    rows = 1;
    if (w->outWidth.asConstant()) {
      columns = blocks(width, blocks(width, most));
      rows = std::clamp<int64_t>(most / columns, 1, height);
      if (w->outHeight.asConstant())
        rows = blocks(height, blocks(height, rows));
    }
    number = std::max<int64_t>(1, images) * blocks(height, rows) *
             blocks(width, columns);
    groups = std::clamp<int64_t>(blocks(leastPrograms, number), 1,
                                 std::max<int64_t>(1, features / 64));
    groups = std::min(groups, panels);
    return number * groups;
  };
  // Blocks that transform the filter are larger, for V is read once a panel, if
  // that leaves programs enough for the cores described.
  if (!w->panel || cut(4) < std::min(leastPrograms, 2 * int64_t(target.cores)))
    cut(2);

  // Worth it? In FMAs of one core, each two; a transform of a vector
  // of channels takes about as long as 100 of them.
  double wide = double(panels) * panel, tiles = double(height) * width;
  double pixels = double(representative(w->outHeight)) *
                  double(representative(w->outWidth));
  double perByte = target.fmaFlops / target.copyBandwidth;
  double direct =
      18.0 * channels * wide * pixels + 36.0 * channels * wide * perByte;
  double winograd =
      tiles * (2.0 * kMatrices * channels * wide +
               200 * (double(channels) * groups + wide)) +
      4.0 * (w->panel ? 9 : kMatrices) * channels * wide * perByte;
  // Each block transforms the filter.
  if (w->panel)
    winograd += 200.0 * channels * wide * number / std::max<int64_t>(1, images);
  config::ConvCpuPlan plan;
  plan.winograd = winograd <= 0.8 * direct;
  knobs.tune(plan, plan.winograd);
  if (!plan.winograd)
    return success();
  knobs.tune(config, groups,
             [&](int64_t other) { return other >= 1 && other <= panels; });

  Dim one = Dim::constant(kernel.getContext(), 1);
  Schedule schedule;
  schedule.kind = "cpu_winograd";
  schedule.parameters = config::print(config);
  schedule.grid =
      w->images * w->outHeight.ceilDiv(one * kOut).ceilDiv(one * rows) *
      w->outWidth.ceilDiv(one * kOut).ceilDiv(one * columns) * groups;
  int64_t flops = 2 * kMatrices * rows * columns * channels * features / groups;
  schedule.grain =
      one * std::max<int64_t>(1, 400000 / std::max<int64_t>(1, flops));
  schedule.scratch = one * WinogradLayout(config, channels, w->panel).end;
  if (!w->panel)
    schedule.packed.push_back({w->filter.getArgNumber(), kMatrices * channels,
                               features, /*transposed=*/false, panel,
                               /*group=*/1, /*winograd=*/true});
  schedules.push_back(std::move(schedule));
  return success();
}

LogicalResult buildCpuWinograd(BuildContext &context) {
  return buildConvBy<WinogradBuilder>(context, takesWinograd);
}

} // namespace knapper
