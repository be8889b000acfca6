// Convolutions of few channels and features on GPUs, channels first: some
// features of a run of output rows a thread.
//
//   program = one thread: `rows` results of a column, one below the other, of
//             `features` features each
//   for each channel: what the run sees is read once, each weight once; every
//   element feeds all results that see it
//
// Neighbouring threads have neighbouring columns, so loads are coalesced, and
// all lanes of a warp read the same weights. What the window sees outside of
// the image is read from the nearest place inside and replaced by zero.
//
// Parameters: features, rows, threads (1).
#include "codegen/schedule/conv/Depthwise.h"
#include "codegen/schedule/conv/DirectConv.h"
#include "codegen/schedule/core/ConfigOf.h"
#include "codegen/schedule/core/Epilogue.h"
#include "codegen/schedule/core/LaneLoops.h"
#include "codegen/schedule/core/Schedules.h"
#include "ir/config/ConvConfig.h"

using namespace mlir;

namespace knapper {

using ts::Dim;

namespace {

struct DirectBuilder {
  ElementEmitter &e;
  DirectConv &c;
  int64_t features, rows;
  OpBuilder &b = e.builder;
  Location loc = e.location;
  Type sumType = computeType(ts::elementTypeOf(c.op.getResult()));
  Value image = {}, group = {}, row = {}, column = {};
  Value feature = {}; ///< the first, in its group

  Value load(Value tensor, ArrayRef<Value> position) {
    Coord coord;
    for (Value index : position)
      coord.dims.push_back({index});
    Value value = e.emit(tensor, coord);
    if (!value || value.getType() == sumType)
      return value;
    return arith::ExtFOp::create(b, loc, sumType, value);
  }
  /// The number of a feature in its group as one that there is.
  Value inGroup(int64_t f) {
    Value number = e.add(feature, e.constant(f));
    return c.features % features ? e.min(number, e.constant(c.features - 1))
                                 : number;
  }
  FailureOr<SmallVector<Value>> addChannel(Value channel, ValueRange sums);
  FailureOr<SmallVector<Value>> compute();
  LogicalResult store(const Epilogue &epilogue, ArrayRef<Value> sums);
};

/// The sums, by feature, then row, with the taps of one channel of the group.
FailureOr<SmallVector<Value>> DirectBuilder::addChannel(Value channel,
                                                        ValueRange before) {
  SmallVector<Dim> low = ts::dimsOf(c.op.getLow());
  Value zero = e.splat(sumType, 0, 0);
  SmallVector<Value> sums(before.begin(), before.end());
  Value input = e.add(e.mul(group, e.constant(c.channels)), channel);
  Value top = e.sub(e.mul(row, e.constant(c.sh)), e.size(low[0])),
        left = e.sub(e.mul(column, e.constant(c.sw)), e.size(low[1]));
  bool ends =
      c.output[2].knownDivisor() == 0 || c.output[2].knownDivisor() % rows != 0;
  int64_t seen = neighboursSeen(rows, c.sh, c.kh, c.dh);
  // Element [j][kx] of what the run sees; null: no result sees it.
  SmallVector<Value> elements(seen * c.kw);
  for (int64_t j = 0; j < seen; ++j) {
    bool used = false;
    for (int64_t r = 0; r < rows; ++r) {
      int64_t tap = j - r * c.sh;
      used |= tap >= 0 && tap % c.dh == 0 && tap / c.dh < c.kh;
    }
    if (!used)
      continue;
    Value y = e.add(top, e.constant(j)), isRow;
    if (c.isPadded(0) || ends)
      std::tie(y, isRow) = nearestInside(e, y, c.input[2]);
    for (int64_t kx = 0; kx < c.kw; ++kx) {
      Value x = e.add(left, e.constant(kx * c.dw)), inside;
      if (c.isPadded(1))
        std::tie(x, inside) = nearestInside(e, x, c.input[3]);
      Value value = load(c.op.getInput(), {image, input, y, x});
      if (!value)
        return failure();
      // What only rows behind the last one see needs no zero.
      if (c.isPadded(0))
        inside = inside ? Value(arith::AndIOp::create(b, loc, inside, isRow))
                        : isRow;
      if (inside)
        value = arith::SelectOp::create(b, loc, inside, value, zero);
      elements[j * c.kw + kx] = value;
    }
  }
  Value firstFeature = e.mul(group, e.constant(c.features));
  for (int64_t f = 0; f < features; ++f) {
    Value number = e.add(firstFeature, inGroup(f));
    for (int64_t ky = 0; ky < c.kh; ++ky)
      for (int64_t kx = 0; kx < c.kw; ++kx) {
        Value weight = load(c.op.getFilter(),
                            {number, channel, e.constant(ky), e.constant(kx)});
        if (!weight)
          return failure();
        for (int64_t r = 0; r < rows; ++r) {
          Value &sum = sums[f * rows + r];
          sum = math::FmaOp::create(
              b, loc, elements[(r * c.sh + ky * c.dh) * c.kw + kx], weight,
              sum);
        }
      }
  }
  return sums;
}

FailureOr<SmallVector<Value>> DirectBuilder::compute() {
  SmallVector<Value> zeros(features * rows, e.splat(sumType, 0, 0));
  if (c.channels == 1)
    return addChannel(e.constant(0), zeros);
  LogicalResult status = success();
  SmallVector<Value> sums = forEach(
      e, e.constant(0), e.constant(c.channels), zeros,
      [&](Value channel, ValueRange carried) {
        return addChannel(channel, carried);
      },
      status);
  if (failed(status))
    return failure();
  return sums;
}

LogicalResult DirectBuilder::store(const Epilogue &epilogue,
                                   ArrayRef<Value> sums) {
  Dim height = c.output[2];
  int64_t known = height.knownDivisor();
  bool rowsEnd = known == 0 || known % rows != 0,
       featuresEnd = c.features % features != 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t f = 0; f < features; ++f) {
      Value y = e.add(row, e.constant(r)), own = e.add(feature, e.constant(f)),
            good;
      if (rowsEnd && r > 0)
        good = e.less(y, e.size(height));
      if (featuresEnd && f > 0) {
        Value is = e.less(own, e.constant(c.features));
        good = good ? Value(arith::AndIOp::create(b, loc, good, is)) : is;
      }
      auto store = [&] {
        Coord at;
        for (Value index :
             {image, e.add(e.mul(group, e.constant(c.features)), own), y,
              column})
          at.dims.push_back({index});
        return epilogue.store(e, sums[f * rows + r], at);
      };
      if (!good) {
        if (failed(store()))
          return failure();
        continue;
      }
      auto branch = scf::IfOp::create(b, loc, good, /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPoint(branch.getThenRegion().front().getTerminator());
      if (failed(e.scoped(store)))
        return failure();
    }
  return success();
}

} // namespace

LogicalResult buildGpuDirectConv(BuildContext &context) {
  ElementEmitter &e = context.emitter;
  auto ops = context.kernel.getBody().getOps<ts::ConvOp>();
  std::optional<DirectConv> conv;
  if (llvm::hasSingleElement(ops))
    conv = directConvOf(*ops.begin());
  if (!conv)
    return context.kernel.emitOpError(
        "is no convolution that this schedule knows");
  FailureOr<Epilogue> epilogue =
      Epilogue::create(context.kernel, conv->op.getResult());
  if (failed(epilogue))
    return failure();
  auto config = configOf<config::DirectConvGpuConfig>(context);
  if (failed(config))
    return failure();
  DirectBuilder builder{e, *conv, config->features, config->rows};
  Dim height = conv->output[2], one = height.like(1);
  int64_t tiles = (conv->features + config->features - 1) / config->features;
  Value id = tile::ProgramIdOp::create(e.builder, e.location);
  SmallVector<Value> place = e.delinearize(
      id, {conv->output[0], one * conv->groups, one * tiles,
           height.ceilDiv(height.like(config->rows)), conv->output[3]});
  builder.image = place[0];
  builder.group = place[1];
  builder.feature = e.mul(place[2], e.constant(config->features));
  builder.row = e.mul(place[3], e.constant(config->rows));
  builder.column = place[4];
  FailureOr<SmallVector<Value>> sums = builder.compute();
  return failed(sums) ? failure() : builder.store(*epilogue, *sums);
}

} // namespace knapper
